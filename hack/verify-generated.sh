#!/usr/bin/env bash
# Fails if `make generate` changes files. It compares with the current files and not with the last commit, so that it is correct in
# a tree with uncommitted changes.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
generated=(api charts config pkg/core/packages/kpt/schema)
for dir in "${generated[@]}"; do
	if [[ -d $dir ]]; then mkdir -p "$before/$dir" && cp -R "$dir/." "$before/$dir/"; fi
done

make generate

status=0
for dir in "${generated[@]}"; do
	if [[ -d $dir ]]; then diff -ruN "$before/$dir" "$dir" || status=1; fi
done
if ((status)); then
	echo "error: generated files were outdated (see the diff above). They are up to date now: add them to your commit." >&2
fi
exit "$status"
