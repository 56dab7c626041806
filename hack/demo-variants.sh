#!/usr/bin/env bash
# Shows variants of a package: one set fans an upstream out to two clusters, each copy fitted to its cluster; what was made is reviewed and
# approved, and arrives. Then the upstream moves on, a cluster joins, and one leaves. It exits with 0 only if all was seen.
#
#   KEEP=1          leave the fleet running
#   DEMO_DIR        where the fleet lies (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

work=$(realpath -m "$STARLING_DIR")-variants

# draft prints the name of the draft in a cluster's Repository; it fails if there is none, or more than one.
draft() {
	local names
	names=$(kubectl get packagerevisions --field-selector "spec.repository=$1,spec.lifecycle=Draft" -o name)
	[[ -n $names && $names != *$'\n'* ]] && echo "${names#*/}"
}
# deployed tells whether a cluster runs an image with so many replicas.
deployed() {
	local cluster=$1 image=$2 replicas=$3
	[[ $(kubectl --context "$cluster" get deployment web -n shop -o \
		jsonpath='{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value} {.status.availableReplicas}') == "$image $cluster $replicas" ]]
}
# well tells whether so many of the set's targets are healthy with their latest revision.
well() {
	[[ $(kubectl get packagevariantset web -o jsonpath='{.status.targets} {.status.draft} {.status.healthy}') == "$1 0 $1" ]]
}
# drafts tells whether so many of them have a draft that is finished.
drafts() { [[ $(kubectl get packagevariantset web -o jsonpath='{.status.draft}') == "$1" ]]; }
# edges tells whether so many Repositories are those of edge clusters.
edges() { [[ $(kubectl get repositories.config.porch.kpt.dev -l kind=edge -o name | wc -l) == "$1" ]]; }
# detached tells whether the cluster of a Repository has left.
detached() {
	[[ $(kubectl get repositories.config.porch.kpt.dev "$1" -o jsonpath='{.status.conditions[?(@.type=="Detached")].status}') == True ]]
}
# approve proposes and approves the drafts of the set.
approve() {
	package propose -l set=web
	package approve -l set=web
}
sets() { show get packagevariantsets -o wide; }

stand() {
	kubectl get repositories.config.porch.kpt.dev,packagerevisions.porch.kpt.dev,packagevariants,packagevariantsets,bdg -o wide 2>/dev/null
	kubectl get packagevariantsets,packagevariants,bdg -o yaml 2>/dev/null
}
try="get packagevariantsets"

prepare
begin=$(now)

say "A fleet: a space to write to (wds1), an OCM hub (its1), two clusters"
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 2 --nodes
ready=$(since "$begin")

say "Each cluster has a Repository of its name, with its labels"
show --context its1 label managedcluster cluster1 kind=edge replicas=1
show --context its1 label managedcluster cluster2 kind=edge replicas=2
until_true "the Repositories of two edge clusters" edges 2
show get repositories.config.porch.kpt.dev -L kind,replicas

say "A catalogue with one package, and a set that wants a copy of it on each edge cluster"
show apply -f docs/examples/variants/catalog.yaml
mkdir -p "$work"
package init web --repository catalog
package pull catalog.web.v1 "$work/web"
cp docs/examples/variants/web/* "$work/web/"
package push "$work/web"
package propose catalog.web.v1
package approve catalog.web.v1
run cat docs/examples/variants/set.yaml
show apply -f docs/examples/variants/set.yaml

say "It makes a draft for each, fitted to its cluster"
until_true "both drafts to be finished" drafts 2
show get packagevariants
show get packagerevisions
sets
differs package diff "$(draft cluster2)"

say "Reviewed and approved, both are delivered"
approve
until_true "two healthy copies" well 2
until_true "the first copy" deployed cluster1 example.com/web:1 1
until_true "the second copy" deployed cluster2 example.com/web:1 2
sets
show get bdg
show --context cluster2 get deployments -n shop
uid=$(kubectl --context cluster2 get deployment web -n shop -o jsonpath='{.metadata.uid}')
first=$(since "$begin")

say "The upstream moves on: a new image. The set makes drafts of it; the clusters wait"
package copy catalog.web.v1 --workspace v2
package pull catalog.web.v2 "$work/web2"
sed -i "s#example.com/web:1#example.com/web:2#" "$work/web2/deployment.yaml"
package push "$work/web2"
package propose catalog.web.v2
package approve catalog.web.v2
until_true "two drafts" drafts 2
differs package diff "$(draft cluster2)"
deployed cluster2 example.com/web:1 2
approve
until_true "the new image in the first cluster" deployed cluster1 example.com/web:2 1
until_true "the new image in the second cluster" deployed cluster2 example.com/web:2 2
until_true "two healthy copies" well 2
[[ $(kubectl --context cluster2 get deployment web -n shop -o jsonpath='{.metadata.uid}') == "$uid" ]]
sets
second=$(since "$begin")

say "A third cluster joins, and gets its copy"
run bin/starling wec add cluster3 --labels kind=edge,replicas=3
until_true "the draft of cluster3" draft cluster3
until_true "its draft to be finished" drafts 1
approve
until_true "the third copy" deployed cluster3 example.com/web:2 3
until_true "three healthy copies" well 3
sets

say "It leaves. What was approved for it stays, and nothing else is touched"
run bin/starling wec remove cluster3
until_true "cluster3 to be detached" detached cluster3
show get repositories.config.porch.kpt.dev cluster3 -o jsonpath='{.status.conditions[?(@.type=="Detached")].message}{"\n"}'
show get packagevariants
show get packagerevisions --field-selector spec.repository=cluster3
[[ $(kubectl get packagerevisions --field-selector spec.repository=cluster3,spec.lifecycle=Published -o name | wc -l) == 1 ]]
[[ $(kubectl get packagevariants -o name | wc -l) == 3 ]]
deployed cluster1 example.com/web:2 1
deployed cluster2 example.com/web:2 2

say "Figures"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'both copies healthy after    %6s s\n' "$first"
printf 'both copies upgraded after   %6s s\n' "$second"
printf 'all of this took             %6s s\n' "$(since "$begin")"
