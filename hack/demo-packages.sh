#!/usr/bin/env bash
# Shows the package store: packages come from a git repository, are drafted, edited, refused at a gate, repaired, published, and go to
# another git repository; then the upstream moves on, and so does what was made of it. It exits with 0 only if all was seen.
#
#   KEEP=1          leave the fleet running
#   DEMO_DIR        where the fleet lies (default .starling-demo)
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo-common.sh

work=$(realpath -m "$STARLING_DIR")-packages
catalog=$work/catalog.git edge=$work/edge.git
# Nothing of whoever runs this: neither their name nor their settings.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com

# edit replaces a text in a file.
edit() {
	printf '$ sed -i s/%s/%s/ %s\n' "$2" "$3" "${1//$work/.}"
	grep -q "$2" "$1"
	sed "s/$2/$3/" "$1" >"$1.new"
	mv "$1.new" "$1"
}
stand() {
	kubectl get repositories.config.porch.kpt.dev,packagerevisions.porch.kpt.dev -o wide 2>/dev/null
	kubectl get repositories.config.porch.kpt.dev -o yaml 2>/dev/null
}
try="get packagerevisions"

command -v git >/dev/null || { echo "git is needed" >&2; exit 1; }
prepare
begin=$(now)

say "Two git repositories: a catalogue with one package, tagged web/v1, and an empty one to deploy from"
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

say "A fleet: a space to write to (wds1), with the package store, and an OCM hub (its1)"
echo "$ export STARLING_DIR=$STARLING_DIR PATH=\$PWD/bin:\$PATH"
run bin/starling up --wecs 0
ready=$(since "$begin")

say "The repositories. What is in the catalogue is imported"
sed -e "s#\$CATALOG#file://$catalog#" -e "s#\$EDGE#file://$edge#" docs/examples/packages/repositories.yaml >"$work/repositories.yaml"
run cat "$work/repositories.yaml"
show apply -f "$work/repositories.yaml"
show wait --for=condition=Ready repositories.config.porch.kpt.dev --all --timeout=60s
until_true "the import of web/v1" kubectl get packagerevision catalog.web.v1
show get repositories.config.porch.kpt.dev
show get packagerevisions

say "A package of our own, made from it: drafted, and edited in a folder"
package clone catalog.web.v1 web --repository edge
package pull edge.web.v1 "$work/web"
edit "$work/web/deployment.yaml" "replicas: 2" "replicas: many"

say "A push is rendered. A validator objects, and the gate is closed"
refused package push "$work/web"
refused package propose edge.web.v1
package tree edge.web.v1

say "Repaired, it passes; the difference to its upstream is shown, object by object"
edit "$work/web/deployment.yaml" "replicas: many" "replicas: 5"
package push "$work/web"
differs package diff edge.web.v1

say "Proposed and approved, it is published"
package propose edge.web.v1
package approve edge.web.v1
show get packagerevisions
published=$(since "$begin")

say "And goes to git, as a commit and a tag"
until_true "the export of web/v1" git -C "$edge" rev-parse --verify web/v1
run git -C "$edge" log --oneline --decorate main
run git -C "$edge" show web/v1:web/deployment.yaml
git -C "$edge" show web/v1:web/deployment.yaml | grep -q "replicas: 5"

say "The upstream moves on: a new image, tagged web/v2"
sed -i "s#example.com/web:1#example.com/web:2#" "$work/source/web/deployment.yaml"
git -C "$work/source" commit --quiet -am "web: the second version"
git -C "$work/source" tag web/v2
run git -C "$work/source" push --quiet "$catalog" main web/v2
until_true "the import of web/v2" kubectl get packagerevision catalog.web.v2

say "An upgrade merges it: their image, our replicas"
package upgrade edge.web.v1
differs package diff edge.web.upgrade-v2
package propose edge.web.upgrade-v2
package approve edge.web.upgrade-v2
until_true "the export of web/v2" git -C "$edge" rev-parse --verify web/v2
run git -C "$edge" log --oneline --decorate main
git -C "$edge" show web/v2:web/deployment.yaml | grep -q "replicas: 5"
git -C "$edge" show web/v2:web/deployment.yaml | grep -q "example.com/web:2"
show get packagerevisions

say "Figures"
printf 'fleet ready after            %6s s\n' "$ready"
printf 'first package published after%6s s\n' "$published"
printf 'all of this took             %6s s\n' "$(since "$begin")"
