#!/usr/bin/env bash
# Shows Starling from nothing: a fleet of real spaces comes up on this machine, objects written in one place arrive in two
# clusters, and status comes back. It exits with 0 only if all was seen.
#
#   KEEP=1          leave the fleet running
#   DEMO_DIR        where the fleet lies (default .starling-demo)
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

stand() {
	kubectl --context wds1 get bindingpolicies,bindings.control.kubestellar.io -o wide 2>/dev/null
	kubectl --context its1 get managedclusters,manifestworks -A 2>/dev/null
}
try="--context wds1 get bindingpolicies"

start=$(now)
prepare
begin=$(now)

say "A fleet: one space to write to (wds1), an OCM hub (its1), and two clusters"
echo "$ export STARLING_DIR=$STARLING_DIR"
run bin/starling up --wecs 2 --nodes
ready=$(since "$begin")

say "Both clusters have joined. Labels say what they are"
show --context its1 label managedclusters cluster1 cluster2 site=edge
show --context its1 get managedclusters --label-columns=name,site

say "A policy: what goes where"
run cat docs/examples/nginx/policy.yaml
show --context wds1 apply -f docs/examples/nginx/policy.yaml

say "Plain objects, written once"
show --context wds1 apply -f docs/examples/nginx/workload.yaml
both wait --for=create namespace/nginx-demo --timeout=60s
first=$(since "$begin") first_with_build=$(since "$start")

say "They arrive in both clusters, and the Deployment runs there"
both --namespace nginx-demo wait --for=create configmap/site deployment/nginx --timeout=60s
both --namespace nginx-demo wait --for=condition=Available deployment/nginx --timeout=60s
for cluster in cluster1 cluster2; do
	show --context "$cluster" --namespace nginx-demo get configmap/site deployment/nginx
done

say "A second policy brings the Deployment's status back from cluster1"
run cat docs/examples/nginx/status-back.yaml
show --context wds1 apply -f docs/examples/nginx/status-back.yaml
show --context wds1 --namespace nginx-demo wait --for='jsonpath={.status.availableReplicas}=2' deployment/nginx --timeout=60s
show --context wds1 --namespace nginx-demo get deployment/nginx
show --context wds1 wait --for=condition=Ready bindingpolicies --all --timeout=60s
show --context wds1 get bindingpolicies

say "Figures"
# The sums for the whole fleet are the largest values of their kind.
memory() { bin/starling status -o json | awk -v field="\"$1\":" '$1 == field && $2 + 0 > max {max = $2 + 0} END {printf "%.0f", max / 1048576}'; }
printf 'fleet ready after            %6s s\n' "$ready"
printf 'first object in both after   %6s s    (%s s with the build)\n' "$first" "$first_with_build"
printf 'resident memory of the fleet %6s MiB  (%s MiB if pages that processes share count once)\n' "$(memory rss)" "$(memory pss)"
