#!/usr/bin/env bash
# Builds a tool of hack/tools, or takes it from a cache that lasts longer than a checkout: linking takes half a minute.
#
# Usage: hack/tool.sh FILE PACKAGE
#   FILE      the program to write
#   PACKAGE   its package
set -euo pipefail
cd "$(dirname "$0")/.."
file=$1 package=$2
version=$({ go env GOVERSION GOARCH GOFLAGS; cat hack/tools/go.mod hack/tools/go.sum; } | sha256sum | cut -c1-12)
cached=${XDG_CACHE_HOME:-$HOME/.cache}/starling-tools/$version/$(basename "$file")
if [[ ! -x $cached ]]; then
	hack/build.sh "Compiling $(basename "$file"): once, up to some minutes." -C hack/tools -o "$cached.$$" "$package"
	mv "$cached.$$" "$cached" # another checkout may build it at the same time
fi
mkdir -p "$(dirname "$file")"
cp "$cached" "$file"
