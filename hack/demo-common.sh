# Functions that all demos use. A demo sources this file in the root of the repository and calls prepare. It defines
#   diagnose   prints objects that explain a failure
#   try        a kubectl command to try in a fleet that is kept
#   work       a directory for its files, if it has any
#   server     the ID of a process that it started and that the fleet needs, if any

export STARLING_DIR=${DEMO_DIR:-.starling-demo}
export PATH=$PWD/bin:$PATH
unset KUBECONFIG
work=
server=

now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN {printf "%.1f", to - from}'; }

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
# step prints what the next commands do. Its further arguments are lines that say what to look at.
step() {
	printf '\n%s# %s%s\n' "$bold" "$1" "$plain"
	shift
	if (($#)); then printf '# %s\n' "$@"; fi
}
# as_typed prints a command with paths relative to the directory of the demo.
as_typed() { printf '%s' "${*//$work/.}"; }
# run prints a command and runs it.
run() {
	printf '$ %s\n' "$(as_typed "$@")"
	"$@"
}
kubectl() { bin/starling kubectl -- "$@"; }
# show prints a kubectl command as a user types it, and runs it.
show() {
	printf '$ bin/starling kubectl -- %s\n' "$*"
	kubectl "$@"
}
# package prints and runs a command of kubectl starling package.
package() {
	printf '$ kubectl starling package %s\n' "$(as_typed "$@")"
	kubectl starling package "$@"
}
# refused runs a command that must fail.
refused() {
	if "$@"; then
		echo "error: this command should have failed" >&2
		return 1
	fi
}
# differs runs a comparison that must find a difference: its exit code must be 1.
differs() {
	local code=0
	"$@" || code=$?
	((code == 1))
}
# until_true waits until a command succeeds.
until_true() {
	local what=$1
	shift
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.2
	done
	echo "error: timed out after a minute waiting for: $what" >&2
	return 1
}

# prepare builds the programs and makes finish clean up at the end. It fails if files of an earlier demo exist.
prepare() {
	if [[ -e $STARLING_DIR ]]; then
		echo "error: $STARLING_DIR exists. Remove it with: bin/starling down --delete --dir $STARLING_DIR" >&2
		exit 1
	fi
	if [[ -n $work && -e $work ]]; then
		echo "error: $work exists. Remove it with: rm -r $work" >&2
		exit 1
	fi
	step "Build all programs"
	run make --no-print-directory build
	trap finish EXIT
	trap 'exit 130' INT TERM
}

finish() {
	local code=$?
	trap - EXIT INT TERM
	if ((code)); then
		step "The demo failed. The current state is:"
		bin/starling status || true
		diagnose || true
	fi
	if [[ -n ${KEEP:-} ]]; then
		step "The fleet still runs. To use it, and to remove it afterwards:"
		echo "export STARLING_DIR=$STARLING_DIR"
		echo "bin/starling kubectl -- $try"
		echo "bin/starling down --delete${work:+; rm -r $work}${server:+; kill $server}"
	else
		bin/starling down --delete || code=1
		if [[ -n $server ]]; then kill "$server"; fi
		if [[ -n $work ]]; then rm -rf "$work"; fi
	fi
	exit "$code"
}
