#!/usr/bin/env bash
# Shows Transactions: a Configuration with dependencies is installed, and another package at the same time, one after the other. A
# definition and an object go to a cluster. An update that would break the object is refused before anything changes. Then a package
# takes the place of one from another repository. The exit code is 0 only if every step succeeds.
#
#   KEEP=1          keep the fleet running
#   DEMO_DIR        directory of the fleet (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

work=$(realpath -m "$STARLING_DIR")-transactions
examples=docs/examples/transactions

# transaction prints the Transaction for a generation of a package. It fails if there is none.
transaction() {
	local name
	name=$(kubectl get transactions -l "pkg.crossplane.io/package=$1,pkg.crossplane.io/transaction-generation=$2" -o name)
	[[ -n $name ]] && echo "${name#*/}"
}
# message prints the message of a condition of an object.
message() { show get "$1" -o jsonpath="{.status.conditions[?(@.type==\"$2\")].message}{\"\n\"}"; }
# names_object_and_cluster fails if the message of a condition does not name the object that would break, and its cluster.
names_object_and_cluster() {
	[[ $(kubectl get "$1" -o jsonpath="{.status.conditions[?(@.type==\"$2\")].message}") == *reports*"cluster cluster1: "*reports* ]]
}
# fill writes an example with the address of the registry into the directory of the demo.
fill() { sed "s#\$REGISTRY#$registry#" "$examples/$1" >"$work/$1"; }
uid() { kubectl get "$1" -o jsonpath='{.metadata.uid}'; }
owner() {
	show get crd queues.queue.example.org -o jsonpath='{.metadata.ownerReferences[?(@.controller==true)].name}{"\n"}'
}

diagnose() {
	kubectl get providers,configurations,transactions -o wide 2>/dev/null
	kubectl get transactions,locks -o yaml 2>/dev/null
}
try="get transactions"

prepare
mkdir -p "$work"
go build -o "$work/serve" ./test/testxpkg/serve
begin=$(now)

step "Start a fleet" \
	"wds1 is the API server to which we write, its1 is an OCM hub, cluster1 is a cluster."
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 1
ready=$(since "$begin")

step "Start a registry" \
	"It serves the packages below. platform requires provider-bucket, which requires provider-family, and so does provider-queue."
mkfifo "$work/address"
"$work/serve" $examples/registry >"$work/address" &
server=$!
read -r registry <"$work/address"
echo "registry at $registry:"
(cd $examples/registry && find . -name package.yaml | sed 's#^\./##; s#/\([^/]*\)/package.yaml#:\1#' | sort)

step "Select what goes to cluster1" \
	"The policy selects a definition that a package will bring, and objects of its kind. OCM's agent needs the right to apply them."
run cat $examples/policy.yaml
show apply -f $examples/policy.yaml
show --context cluster1 apply -f $examples/rights.yaml

step "Install two packages at the same time" \
	"Each gets a Transaction. Only one at a time holds the Lock: the second one starts when the first one has ended." \
	"The Lock of cluster1 lists what arrives there."
fill packages.yaml
run cat "$work/packages.yaml"
show apply -f "$work/packages.yaml"
show wait --for=condition=Healthy configuration/platform provider/provider-queue --timeout=60s
show get transactions -o custom-columns=NAME:.metadata.name,NUMBER:.status.transactionNumber,STARTED:.status.startTime,ENDED:.status.completionTime
show get providers,configurations
show get crd -l pkg.crossplane.io/transaction
until_true "the definition in cluster1" kubectl --context cluster1 get crd buckets.storage.example.org
show --context its1 get locks.pkg.crossplane.io cluster1 -o jsonpath='{range .packages[*]}{.source} {.version}{"\n"}{end}'
installed=$(since "$begin")

step "Create objects of the new kinds" \
	"The policy delivers one of them."
show apply -f $examples/bucket.yaml -f $examples/queue.yaml
until_true "the object in cluster1" kubectl --context cluster1 get bucket reports
show --context cluster1 get buckets

step "Preview an update" \
	"Version 2 of platform requires version 2 of provider-bucket, which replaces the field region by location. The message says" \
	"which object that would break, in wds1 and in which cluster."
fill preview.yaml
run cat "$work/preview.yaml"
show apply -f "$work/preview.yaml"
show wait --for=condition=Validated=False transaction/preview --timeout=60s
message transaction/preview Validated
names_object_and_cluster transaction/preview Validated

step "Update anyway" \
	"The Transaction fails before anything changes: neither in wds1 nor in cluster1."
before=$(kubectl get crd buckets.storage.example.org -o jsonpath='{.metadata.resourceVersion}')
show patch configuration platform --type merge -p "{\"spec\":{\"package\":\"$registry/org/platform:v2.0.0\"}}"
until_true "the Transaction of the update" transaction platform 2
update=$(transaction platform 2)
show wait --for=condition=Validated=False "transaction/$update" --timeout=60s
show get transactions
message configuration/platform Synced
names_object_and_cluster configuration/platform Synced
[[ $(kubectl get crd buckets.storage.example.org -o jsonpath='{.metadata.resourceVersion}') == "$before" ]]
show get lock lock -o jsonpath='{range .packages[*]}{.source} {.version}{"\n"}{end}'

step "Go back" \
	"The failed Transaction is superseded. The next one has nothing to change."
show apply -f "$work/packages.yaml"
until_true "the Transaction of the earlier version" transaction platform 3
show wait --for=condition=Ready "transaction/$(transaction platform 3)" --timeout=60s

step "Replace a package by one from another repository" \
	"Another revision controls the definition afterwards. The object of the user is not touched."
fill replace.yaml
run cat "$work/replace.yaml"
queue=$(uid queue/orders)
owner
show apply -f "$work/replace.yaml"
show wait --for=condition=Ready transaction/to-the-community --timeout=60s
owner
show get queues,providers
[[ $(uid queue/orders) == "$queue" ]]
show get transactions

step "Measurements"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'packages installed after     %6s s\n' "$installed"
printf 'total                        %6s s\n' "$(since "$begin")"
