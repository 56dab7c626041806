#!/usr/bin/env bash
# Shows variants of a package: a PackageVariantSet creates a variant of a package for each of two clusters. Their drafts are reviewed,
# approved and delivered. Then the upstream has a new version, a third cluster joins, and leaves again. The exit code is 0 only if
# every step succeeds.
#
#   KEEP=1          keep the fleet running
#   DEMO_DIR        directory of the fleet (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

work=$(realpath -m "$STARLING_DIR")-variants

# draft prints the name of the draft in a cluster's Repository. It fails unless there is exactly one.
draft() {
	local names
	names=$(kubectl get packagerevisions --field-selector "spec.repository=$1,spec.lifecycle=Draft" -o name)
	[[ -n $names && $names != *$'\n'* ]] && echo "${names#*/}"
}
# deployed checks that a cluster runs the image with this number of replicas.
deployed() {
	local cluster=$1 image=$2 replicas=$3
	[[ $(kubectl --context "$cluster" get deployment web -n shop -o \
		jsonpath='{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value} {.status.availableReplicas}') == "$image $cluster $replicas" ]]
}
# healthy checks that the set has this number of targets, and that all are healthy with their latest revision.
healthy() {
	[[ $(kubectl get packagevariantset web -o jsonpath='{.status.targets} {.status.draft} {.status.healthy}') == "$1 0 $1" ]]
}
# drafts checks that this number of targets has a complete draft.
drafts() { [[ $(kubectl get packagevariantset web -o jsonpath='{.status.draft}') == "$1" ]]; }
# edges checks that this number of Repositories belongs to edge clusters.
edges() { [[ $(kubectl get repositories.config.porch.kpt.dev -l kind=edge -o name | wc -l) == "$1" ]]; }
# detached checks that the cluster of a Repository has left.
detached() {
	[[ $(kubectl get repositories.config.porch.kpt.dev "$1" -o jsonpath='{.status.conditions[?(@.type=="Detached")].status}') == True ]]
}
# approve proposes and approves all drafts of the set.
approve() {
	package propose -l set=web
	package approve -l set=web
}
sets() { show get packagevariantsets -o wide; }

diagnose() {
	kubectl get repositories.config.porch.kpt.dev,packagerevisions.porch.kpt.dev,packagevariants,packagevariantsets,bdg -o wide 2>/dev/null
	kubectl get packagevariantsets,packagevariants,bdg -o yaml 2>/dev/null
}
try="get packagevariantsets"

prepare
begin=$(now)

step "Start a fleet" \
	"wds1 is the API server to which we write, its1 is an OCM hub, cluster1 and cluster2 are the clusters."
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 2 --nodes
ready=$(since "$begin")

step "Label the clusters" \
	"Each cluster has a Repository with its name and its labels. What is published there is delivered to the cluster."
show --context its1 label managedcluster cluster1 kind=edge replicas=1
show --context its1 label managedcluster cluster2 kind=edge replicas=2
until_true "the Repositories of two edge clusters" edges 2
show get repositories.config.porch.kpt.dev -L kind,replicas

step "Publish a package, and create a set of variants" \
	"The PackageVariantSet requests a variant of the package for each Repository with the label kind=edge."
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

step "Look at the variants" \
	"Each cluster has a draft of its own. The diff shows what the set changed in it: the name of the cluster, and the number of replicas."
until_true "two complete drafts" drafts 2
show get packagevariants
show get packagerevisions
sets
differs package diff "$(draft cluster2)"

step "Approve the drafts" \
	"Starling delivers the published packages: each cluster runs its variant."
approve
until_true "two healthy variants" healthy 2
until_true "the variant in cluster1" deployed cluster1 example.com/web:1 1
until_true "the variant in cluster2" deployed cluster2 example.com/web:1 2
sets
show get bdg
show --context cluster2 get deployments -n shop
uid=$(kubectl --context cluster2 get deployment web -n shop -o jsonpath='{.metadata.uid}')
first=$(since "$begin")

step "Publish a new version of the package, with a new image" \
	"The set creates a draft of it for each cluster. The clusters run the old image until the drafts are approved."
package copy catalog.web.v1 --workspace v2
package pull catalog.web.v2 "$work/web2"
sed -i "s#example.com/web:1#example.com/web:2#" "$work/web2/deployment.yaml"
package push "$work/web2"
package propose catalog.web.v2
package approve catalog.web.v2
until_true "two complete drafts" drafts 2
differs package diff "$(draft cluster2)"
deployed cluster2 example.com/web:1 2
approve
until_true "the new image in cluster1" deployed cluster1 example.com/web:2 1
until_true "the new image in cluster2" deployed cluster2 example.com/web:2 2
until_true "two healthy variants" healthy 2
[[ $(kubectl --context cluster2 get deployment web -n shop -o jsonpath='{.metadata.uid}') == "$uid" ]]
sets
second=$(since "$begin")

step "Add a third cluster" \
	"It has the label kind=edge, so the set creates a variant for it."
run bin/starling wec add cluster3 --labels kind=edge,replicas=3
until_true "a draft for cluster3" draft cluster3
until_true "its draft to be complete" drafts 1
approve
until_true "the variant in cluster3" deployed cluster3 example.com/web:2 3
until_true "three healthy variants" healthy 3
sets

step "Remove the third cluster" \
	"Its published packages are kept, and its Repository has the condition Detached. The other clusters do not change."
run bin/starling wec remove cluster3
until_true "cluster3 to be detached" detached cluster3
show get repositories.config.porch.kpt.dev cluster3 -o jsonpath='{.status.conditions[?(@.type=="Detached")].message}{"\n"}'
show get packagevariants
show get packagerevisions --field-selector spec.repository=cluster3
[[ $(kubectl get packagerevisions --field-selector spec.repository=cluster3,spec.lifecycle=Published -o name | wc -l) == 1 ]]
[[ $(kubectl get packagevariants -o name | wc -l) == 3 ]]
deployed cluster1 example.com/web:2 1
deployed cluster2 example.com/web:2 2

step "Measurements"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'both variants healthy after  %6s s\n' "$first"
printf 'both variants upgraded after %6s s\n' "$second"
printf 'total                        %6s s\n' "$(since "$begin")"
