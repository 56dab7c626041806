#!/usr/bin/env bash
# Shows what Starling does: it starts a fleet with real API servers on this machine, delivers objects to two clusters, and returns
# their status. The exit code is 0 only if every step succeeds.
#
#   KEEP=1          keep the fleet running
#   DEMO_DIR        directory of the fleet (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

# both runs the same kubectl command on both clusters at once.
both() {
	local pids=() pid
	for cluster in cluster1 cluster2; do
		show --context "$cluster" "$@" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
}

diagnose() {
	kubectl --context wds1 get bindingpolicies,bindings.control.kubestellar.io -o wide 2>/dev/null
	kubectl --context its1 get managedclusters,manifestworks -A 2>/dev/null
}
try="--context wds1 get bindingpolicies"

start=$(now)
prepare
begin=$(now)

step "Start a fleet" \
	"wds1 is the API server to which we write objects, its1 is an OCM hub, cluster1 and cluster2 are the clusters."
echo "$ export STARLING_DIR=$STARLING_DIR"
run bin/starling up --wecs 2 --nodes
ready=$(since "$begin")

step "Label the clusters" \
	"Both have joined the hub: AVAILABLE is True. Policies select clusters by their labels, here by site=edge."
show --context its1 label managedclusters cluster1 cluster2 site=edge
show --context its1 get managedclusters --label-columns=name,site

step "Create a policy in wds1" \
	"It selects objects with the label app=nginx and clusters with the label site=edge."
run cat docs/examples/nginx/policy.yaml
show --context wds1 apply -f docs/examples/nginx/policy.yaml

step "Create plain objects in wds1, once" \
	"They have the label app=nginx, so Starling delivers them to both clusters."
show --context wds1 apply -f docs/examples/nginx/workload.yaml
both wait --for=create namespace/nginx-demo --timeout=60s
first=$(since "$begin") first_with_build=$(since "$start")

step "Look at the objects in the clusters" \
	"Both clusters have the ConfigMap and the Deployment, and its pods are available (READY 2/2)."
both --namespace nginx-demo wait --for=create configmap/site deployment/nginx --timeout=60s
both --namespace nginx-demo wait --for=condition=Available deployment/nginx --timeout=60s
for cluster in cluster1 cluster2; do
	show --context "$cluster" --namespace nginx-demo get configmap/site deployment/nginx
done

step "Create a second policy, which returns the Deployment's status from cluster1 to wds1" \
	"Nothing runs in wds1, but its Deployment then shows READY 2/2, which cluster1 reports." \
	"The policies show how many copies of objects the clusters have applied, and how many are healthy."
run cat docs/examples/nginx/status-back.yaml
show --context wds1 apply -f docs/examples/nginx/status-back.yaml
show --context wds1 --namespace nginx-demo wait --for='jsonpath={.status.availableReplicas}=2' deployment/nginx --timeout=60s
show --context wds1 --namespace nginx-demo get deployment/nginx
show --context wds1 wait --for=condition=Ready bindingpolicies --all --timeout=60s
show --context wds1 get bindingpolicies

step "Measurements"
# The values of the whole fleet are the largest ones.
memory() { bin/starling status -o json | awk -v field="\"$1\":" '$1 == field && $2 + 0 > max {max = $2 + 0} END {printf "%.0f", max / 1048576}'; }
printf 'fleet ready after            %6s s\n' "$ready"
printf 'first object in both after   %6s s    (%s s with the build)\n' "$first" "$first_with_build"
printf 'resident memory of the fleet %6s MiB  (%s MiB if shared pages count once)\n' "$(memory rss)" "$(memory pss)"
