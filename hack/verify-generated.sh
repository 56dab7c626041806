#!/usr/bin/env bash
# Fails when `make generate` changes something. It compares with what lies here, committed or not, so it also tells the
# truth in a tree that is being worked on.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
generated=(api charts config pkg/core/kptpkg/schema pkg/packageserver/openapi)
for dir in "${generated[@]}"; do
	if [[ -d $dir ]]; then mkdir -p "$before/$dir" && cp -R "$dir/." "$before/$dir/"; fi
done

make generate

status=0
for dir in "${generated[@]}"; do
	if [[ -d $dir ]]; then diff -ruN "$before/$dir" "$dir" || status=1; fi
done
if ((status)); then
	echo "Generated files were not current (see above). They are now: add them to your commit." >&2
fi
exit "$status"
