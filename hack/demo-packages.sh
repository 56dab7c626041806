#!/usr/bin/env bash
# Shows the package store: a package is imported from a git repository, cloned, edited, refused by a validator, fixed, published and
# exported to another git repository. Then its upstream has a new version, and an upgrade merges it. The exit code is 0 only if
# every step succeeds.
#
#   KEEP=1          keep the fleet running
#   DEMO_DIR        directory of the fleet (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

work=$(realpath -m "$STARLING_DIR")-packages
catalog=$work/catalog.git edge=$work/edge.git
# Git must not use the name or the settings of the user.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com

# edit prints and runs a replacement of text in a file.
edit() {
	printf '$ sed -i s/%s/%s/ %s\n' "$2" "$3" "${1//$work/.}"
	grep -q "$2" "$1"
	sed "s/$2/$3/" "$1" >"$1.new"
	mv "$1.new" "$1"
}
diagnose() {
	kubectl get repositories.config.porch.kpt.dev,packagerevisions.porch.kpt.dev -o wide 2>/dev/null
	kubectl get repositories.config.porch.kpt.dev -o yaml 2>/dev/null
}
try="get packagerevisions"

command -v git >/dev/null || { echo "error: git not found; install it" >&2; exit 1; }
prepare
begin=$(now)

step "Create two git repositories" \
	"catalog.git has one package, tagged web/v1. edge.git is empty: we will publish to it."
mkdir -p "$work"
cp -r docs/examples/packages "$work/source"
rm "$work/source/repositories.yaml"
git -c init.defaultBranch=main init --quiet "$work/source"
git -C "$work/source" add .
git -C "$work/source" commit --quiet -m "web: the first version"
git -C "$work/source" tag web/v1
git clone --quiet --bare "$work/source" "$catalog"
git -c init.defaultBranch=main init --quiet --bare "$edge"
run git -C "$catalog" log --oneline --decorate

step "Start a fleet without clusters" \
	"wds1 is an API server that also serves packages. its1 is an OCM hub."
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 0
ready=$(since "$begin")

step "Register both repositories" \
	"Starling imports the package of the catalog: a PackageRevision for the tag web/v1 appears."
sed -e "s#\$CATALOG#file://$catalog#" -e "s#\$EDGE#file://$edge#" docs/examples/packages/repositories.yaml >"$work/repositories.yaml"
run cat "$work/repositories.yaml"
show apply -f "$work/repositories.yaml"
show wait --for=condition=Ready repositories.config.porch.kpt.dev --all --timeout=60s
until_true "the import of web/v1" kubectl get packagerevision catalog.web.v1
show get repositories.config.porch.kpt.dev
show get packagerevisions

step "Clone the package, and edit the clone in a directory" \
	"The clone is a draft in the repository edge. The edit is a mistake: a number of replicas that is no number."
package clone catalog.web.v1 web --repository edge
package pull edge.web.v1 "$work/web"
edit "$work/web/deployment.yaml" "replicas: 2" "replicas: many"

step "Push the mistake" \
	"The server renders the package, and a validator refuses it. The draft cannot be proposed: its readiness gate is not met."
refused package push "$work/web"
refused package propose edge.web.v1
package tree edge.web.v1

step "Fix the mistake, and push again" \
	"Now the package is valid. The diff shows what differs from its upstream, object by object."
edit "$work/web/deployment.yaml" "replicas: many" "replicas: 5"
package push "$work/web"
differs package diff edge.web.v1

step "Propose and approve the draft" \
	"Its lifecycle is then Published, and it can no longer be edited."
package propose edge.web.v1
package approve edge.web.v1
show get packagerevisions
published=$(since "$begin")

step "Look at the git repository edge" \
	"Starling has exported the published package: a commit on main, and the tag web/v1."
until_true "the export of web/v1" git -C "$edge" rev-parse --verify web/v1
run git -C "$edge" log --oneline --decorate main
run git -C "$edge" show web/v1:web/deployment.yaml
git -C "$edge" show web/v1:web/deployment.yaml | grep -q "replicas: 5"

step "Publish a new version upstream" \
	"The catalog has a new image, tagged web/v2. Starling imports it."
sed -i "s#example.com/web:1#example.com/web:2#" "$work/source/web/deployment.yaml"
git -C "$work/source" commit --quiet -am "web: the second version"
git -C "$work/source" tag web/v2
run git -C "$work/source" push --quiet "$catalog" main web/v2
until_true "the import of web/v2" kubectl get packagerevision catalog.web.v2

step "Upgrade our package" \
	"The upgrade merges both changes: the image of the upstream, and our number of replicas."
package upgrade edge.web.v1
differs package diff edge.web.upgrade-v2
package propose edge.web.upgrade-v2
package approve edge.web.upgrade-v2
until_true "the export of web/v2" git -C "$edge" rev-parse --verify web/v2
run git -C "$edge" log --oneline --decorate main
git -C "$edge" show web/v2:web/deployment.yaml | grep -q "replicas: 5"
git -C "$edge" show web/v2:web/deployment.yaml | grep -q "example.com/web:2"
show get packagerevisions

step "Measurements"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'first package published after%6s s\n' "$published"
printf 'total                        %6s s\n' "$(since "$begin")"
