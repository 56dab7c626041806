#!/usr/bin/env bash
# Shows how to see what a change will do before it is made, how to wait until it has arrived, and how to find out why it does not
# arrive. The exit code is 0 only if every step succeeds.
#
#   KEEP=1          keep the fleet running
#   DEMO_DIR        directory of the fleet (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

nginx=docs/examples/nginx
examples=docs/examples/foresight

# starling prints and runs a command of kubectl starling.
starling() {
	printf '$ kubectl starling %s\n' "$*"
	kubectl starling "$@"
}
# exits runs a command whose exit code must be the first argument.
exits() {
	local want=$1 code=0
	shift
	"$@" || code=$?
	printf '(exit code %s)\n' "$code"
	((code == want))
}
# shows runs a command whose output must have a text.
shows() {
	local want=$1 code=0
	shift
	"$@" >"$work/output" 2>&1 || code=$?
	cat "$work/output"
	if ! grep -qF -- "$want" "$work/output"; then
		echo "error: the output does not have: $want" >&2
		return 1
	fi
	return "$code"
}

diagnose() {
	kubectl starling tree policy/nginx 2>/dev/null
	kubectl --context its1 get managedclusters,manifestworks -A 2>/dev/null
}
try="starling tree policy/nginx"
work=$(realpath -m "$STARLING_DIR")-foresight

prepare
mkdir -p "$work"
begin=$(now)

step "Start a fleet" \
	"wds1 is the API server to which we write, its1 is an OCM hub, cluster1 and cluster2 are clusters. cluster1 is an edge site." \
	"cluster2 has a rule of its own: a Deployment has at most 3 replicas there."
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 2 --nodes
show --context its1 label managedcluster cluster1 site=edge
show --context cluster2 apply -f $examples/limit.yaml
starling clusters
ready=$(since "$begin")

step "What would happen if this were applied?" \
	"Nothing changes. The exit code is 2, as there would be changes: a pipeline can show them before a merge."
exits 2 starling plan -f $nginx/policy.yaml -f $nginx/workload.yaml

step "Apply it, and wait until it has arrived" \
	"This very edit is waited for: the content is compared, not a condition, which may be about the edit before."
show apply -f $nginx/workload.yaml -f $nginx/policy.yaml
shows "3 objects are healthy in 1 cluster" starling rollout status -f $nginx/workload.yaml --timeout=2m
starling tree policy/nginx
arrived=$(since "$begin")

step "What if cluster2 were an edge site, too?"
exits 2 starling plan --label cluster/cluster2=site=edge
show --context its1 label managedcluster cluster2 site=edge
shows "3 objects are healthy in 2 clusters" starling rollout status policy/nginx --timeout=2m

step "A mistake: why is this ConfigMap in no cluster?" \
	"The last line of the answer is the command that mends it."
show apply -f $examples/settings.yaml
shows "no policy selects it" starling explain cm/settings -n nginx-demo
show label configmaps settings app.kubernetes.io/part-of=nginx-demo --namespace nginx-demo
shows "1 object is healthy in 2 clusters" starling rollout status cm/settings -n nginx-demo --timeout=2m

step "An edit that one of the clusters refuses" \
	"The exit code is 1 as soon as cluster2 has refused it, so a script does not wait for a timeout."
show scale deployment nginx --replicas=5 -n nginx-demo
exits 1 shows "this site has room for 3 replicas" starling rollout status deploy/nginx -n nginx-demo --timeout=2m
shows "cluster2 cannot apply" starling explain deploy/nginx -n nginx-demo
shows "Cluster cluster2" starling tree policy/nginx

step "The edit that repairs it"
show scale deployment nginx --replicas=3 -n nginx-demo
shows "1 object is healthy in 2 clusters" starling rollout status deploy/nginx -n nginx-demo --timeout=2m

step "A change that a pipeline should stop" \
	"The policy would select another site, where no cluster is: that would remove everything. --fail-on makes it an error."
exits 1 starling plan -f $examples/core.yaml --fail-on=removal

step "Take everything off a cluster" \
	"The command shows first what it will do, and waits until the cluster is empty."
starling cluster drain cluster2 --yes
starling clusters

step "Measurements"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'first rollout healthy after  %6s s\n' "$arrived"
printf 'total                        %6s s\n' "$(since "$begin")"
