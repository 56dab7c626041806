#!/usr/bin/env bash
# Runs `go build` and shows progress: the first build takes minutes. It prints nothing if all packages are in the build cache.
#
# Usage: hack/build.sh MESSAGE FLAGS...
#   MESSAGE   printed if packages of other modules must be compiled
#   FLAGS     flags and packages of go build
set -euo pipefail
interval=10 # seconds between two lines of progress

message=$1
shift
packages=0 seen=-1 modules=0 code='' announced='' begun='' next=$interval

progress() {
	local state="compiled $packages packages"
	if ((packages == 0 && modules > 0)); then state="downloaded $modules modules"; fi
	# Linking a program with Kubernetes takes a minute, in which go build prints nothing.
	if ((packages == seen || packages + modules == 0)); then state+="; compiling or linking"; fi
	printf '  %4ds  %s\n' "$SECONDS" "$state" >&2
	seen=$packages next=$((SECONDS + interval))
}

announce() {
	if [[ -n $announced ]]; then return; fi
	announced=1
	printf '%s\n' "$message" >&2
}

# Packages that are compiled are printed one by one. The last line is the exit code.
exec 3< <(code=0; GOFLAGS="${GOFLAGS:-} -v" go build "$@" 2>&1 || code=$?; echo "exit $code")
while [[ -z $code ]]; do
	if read -r -t "$interval" line <&3; then
		line=$begun$line begun=''
		case $line in
		"exit "*) code=${line#exit } ;;
		"go: downloading "*) modules=$((modules + 1)); announce ;;
		github.com/starlinghq/starling/*) packages=$((packages + 1)) ;;
		*[[:space:]:]*) printf '%s\n' "$line" >&2 ;; # an error
		*) packages=$((packages + 1)); announce ;;
		esac
	elif (($? <= 128)); then # not the timeout: go build was killed
		code=1
	else
		begun+=$line # the timeout may end in the middle of a line
	fi
	if [[ -z $code ]] && ((SECONDS >= next)); then progress; fi
done
if [[ -n $announced ]] && ((code == 0)); then printf '  %4ds  done: compiled %d packages\n' "$SECONDS" "$packages" >&2; fi
exit "$code"
