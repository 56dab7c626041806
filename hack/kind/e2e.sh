#!/usr/bin/env bash
# Runs the tests of test/kind on clusters of kind, with the programs of `make build`. Without a container engine it says
# so, and succeeds.
#
# Usage: hack/kind/e2e.sh [FLAGS...]
#   FLAGS   flags of the test binary, such as -test.run '^TestCluster$'
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! docker info >/dev/null 2>&1; then
	echo "skipped: no container engine"
	exit
fi
# Each node needs dozens of inotify instances: see "too many open files" in the known issues of kind.
instances=/proc/sys/fs/inotify/max_user_instances
if [[ -w $instances ]] && (($(<"$instances") < 1024)); then echo 1024 >"$instances"; fi
mkdir -p bin/kind
# Before engine.sh: its own engine has no network outside, and the Go command may need one.
hack/kind/node-image.sh --build-only >/dev/null
MAKEFLAGS= make images ARCHITECTURES="$(go env GOARCH)" # what `make build` has linked is not linked again
STARLING_IMAGES=$PWD/bin/images/starling-$(go env GOARCH).tar
export STARLING_IMAGES
go test -c -vet=off -ldflags '-s -w -linkmode=internal' -o bin/kind/kind.test ./test/kind
go build -o /dev/null ./test/kind/probe ./hack/images

# why prints again why tests have failed. That is what they said, without what they waited for and what they only logged,
# as their source says.
why() {
	awk '
		/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; logged = 0; next }
		/^ *--- FAIL: / { failed[++n] = $3 }
		/^ *--- / { next }
		/^ +[a-z_]+\.go:[0-9]+: / {
			split($1, at, ":")
			read = "sed -n " at[2] "p test/kind/" at[1] " 2>/dev/null"
			source = ""
			read | getline source
			close(read)
			logged = $2 == "waiting:" || source ~ /\.Logf?\(|\.since\(/
		}
		!logged { said[test] = said[test] "\n" $0 }
		END {
			for (i = 1; i <= n; i++) {
				inner = 0
				for (j = 1; j <= n; j++) inner += index(failed[j], failed[i] "/") == 1
				if (!inner) print "\n" failed[i] " failed:" said[failed[i]]
			}
		}' bin/kind/e2e.log
}

if ! hack/kind/engine.sh bash -euo pipefail -c '
	STARLING_KIND_IMAGE=$(hack/kind/node-image.sh)
	export STARLING_KIND_IMAGE
	echo "nodes have the image $STARLING_KIND_IMAGE"
	cd test/kind
	../../bin/kind/kind.test -test.v -test.parallel 2 -test.timeout 40m "$@"' kind.test "$@" 2>&1 | tee bin/kind/e2e.log; then
	why
	exit 1
fi
