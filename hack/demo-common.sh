# What the demonstrations have in common; they source this from the root of the repository.

now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN {printf "%.1f", to - from}'; }

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
run() {
	printf '$ %s\n' "$*"
	"$@"
}
kubectl() { bin/starling kubectl -- "$@"; }
# show runs kubectl and prints it the way one types it.
show() {
	printf '$ bin/starling kubectl -- %s\n' "$*"
	kubectl "$@"
}
