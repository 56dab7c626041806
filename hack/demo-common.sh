# What the demonstrations have in common; they source this from the root of the repository. Each says what it looks at if it fails
# (stand) and what to try in a fleet that is kept (try), names a folder for its files if it has any (work), and calls prepare.

export STARLING_DIR=${DEMO_DIR:-.starling-demo}
export PATH=$PWD/bin:$PATH
unset KUBECONFIG
work=

now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN {printf "%.1f", to - from}'; }

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
# as_typed is a command with the paths as seen from the folder of the demonstration.
as_typed() { printf '%s' "${*//$work/.}"; }
# run prints a command and runs it.
run() {
	printf '$ %s\n' "$(as_typed "$@")"
	"$@"
}
kubectl() { bin/starling kubectl -- "$@"; }
# show runs kubectl and prints it the way one types it.
show() {
	printf '$ bin/starling kubectl -- %s\n' "$*"
	kubectl "$@"
}
# package runs kubectl starling package.
package() {
	printf '$ kubectl starling package %s\n' "$(as_typed "$@")"
	kubectl starling package "$@"
}
# refused is for what must fail.
refused() {
	if "$@"; then
		echo "That should have been refused." >&2
		return 1
	fi
}
# differs is for a comparison that must find something: its exit code is 1 then.
differs() {
	local code=0
	"$@" || code=$?
	((code == 1))
}
# until_true waits for a command to succeed.
until_true() {
	local what=$1
	shift
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.2
	done
	echo "Waited a minute in vain: $what." >&2
	return 1
}

# prepare builds what is shown, unless something is in the way, and has finish clean up from then on.
prepare() {
	if [[ -e $STARLING_DIR ]]; then
		echo "$STARLING_DIR is there already: remove it with bin/starling down --delete --dir $STARLING_DIR" >&2
		exit 1
	fi
	if [[ -n $work && -e $work ]]; then
		echo "$work is there already: remove it" >&2
		exit 1
	fi
	say "Build"
	run make --no-print-directory build
	trap finish EXIT
	trap 'exit 130' INT TERM
}

finish() {
	local code=$?
	trap - EXIT INT TERM
	if ((code)); then
		say "The demo failed. This is how things stand:"
		bin/starling status || true
		stand || true
	fi
	if [[ -n ${KEEP:-} ]]; then
		say "The fleet is kept. To use it, and to remove it:"
		echo "export STARLING_DIR=$STARLING_DIR"
		echo "bin/starling kubectl -- $try"
		echo "bin/starling down --delete${work:+; rm -r $work}"
	else
		bin/starling down --delete || code=1
		if [[ -n $work ]]; then rm -rf "$work"; fi
	fi
	exit "$code"
}
