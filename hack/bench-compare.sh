#!/usr/bin/env bash
# Compares this tree with another commit: bench-compare.sh COMMIT [FLAGS OF test/perf]. It builds the
# programs of that commit, runs the same benchmark with both in turn, ROUNDS times (3), and prints
# what benchstat says. This tree's programs and benchstat must be in bin/.
#
# This tree's test/perf measures both, so that only the programs differ.
set -euo pipefail

root=$(git rev-parse --show-toplevel)
base=$(git -C "$root" rev-parse --verify --short "${1:?usage: bench-compare.sh COMMIT [FLAGS OF test/perf]}^{commit}")
shift
[ $# -gt 0 ] || set -- placement --scenario edit,edit-large

tree=$(mktemp -d)
results=$root/bin/bench-compare
remove() { git -C "$root" worktree remove --force "$tree/base" 2>/dev/null || true; rm -rf "$tree"; }
trap remove EXIT
git -C "$root" worktree add --quiet --detach "$tree/base" "$base"
make -C "$tree/base" build
go build -C "$root" -o "$tree/perf" ./test/perf

rm -rf "$results"
mkdir -p "$results"
# run NAME TREE FLAGS: adds a run to the results of that name. test/perf installs the CRDs of the
# module in which it runs.
run() {
	local name=$1 in=$2
	shift 2
	echo "bench-compare: $name, round $round of ${ROUNDS:-3}" >&2
	(cd "$in" && STARLING_BIN_DIR=$in/bin "$tree/perf" "$@" -o bench) >>"$results/$name"
}
# The order changes from round to round, so that a change of the machine's load affects both.
for round in $(seq "${ROUNDS:-3}"); do
	if ((round % 2)); then
		run "base-$base" "$tree/base" "$@"
		run this-tree "$root" "$@"
	else
		run this-tree "$root" "$@"
		run "base-$base" "$tree/base" "$@"
	fi
done
cd "$results"
"$root/bin/tools/benchstat" "base-$base" this-tree
