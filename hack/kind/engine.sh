#!/usr/bin/env bash
# Runs a command with a container engine that can start kind's nodes, which are privileged containers. If the engine of
# this machine cannot, root gets an engine for the time of the command, in its own namespaces and without a network
# outside. Its images stay in bin/kind/engine.
#
# Usage: hack/kind/engine.sh COMMAND [ARGUMENTS...]
#        hack/kind/engine.sh --check    exit with 0 if the engine of this machine can start nodes
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$PWD/bin/kind
probe=starling/probe:latest

# can_start_nodes reports whether a privileged container starts.
can_start_nodes() {
	local container started=1
	go build -ldflags '-s -w' -o "$dir/probe/pause" ./hack/kind/pause
	tar -C "$dir/probe" -c pause | docker import - "$probe" >/dev/null || return 1
	container=$(docker create --privileged "$probe" /pause) || return 1
	timeout 30 docker start "$container" >/dev/null 2>&1 || started=
	docker rm -f "$container" >/dev/null
	docker rmi "$probe" >/dev/null
	[[ -n $started ]]
}

# with_own_engine runs dockerd and the command. It is the first process of its namespace: when it ends, all end.
with_own_engine() {
	mount -t tmpfs tmpfs /run # sockets and locks of this engine only
	ip link set lo up
	export DOCKER_HOST=unix:///run/docker.sock
	echo '{}' >/run/docker.json
	dockerd --config-file /run/docker.json --host "$DOCKER_HOST" --data-root "$dir/engine" \
		--add-runtime "kind=$dir/runtime" --default-runtime kind >"$dir/engine.log" 2>&1 &
	local daemon=$! code=0
	for ((i = 0; ; i++)); do
		if docker version >/dev/null 2>&1; then break; fi
		if ((i == 150)) || ! kill -0 "$daemon" 2>/dev/null; then
			echo "error: start dockerd: it is not ready. The end of $dir/engine.log:" >&2
			tail -n 5 "$dir/engine.log" >&2
			return 1
		fi
		sleep 0.2
	done
	remove_containers # of a run that was killed
	"$@" || code=$?
	remove_containers
	kill "$daemon"
	timeout 30 tail --pid="$daemon" -f /dev/null || true
	return "$code"
}

# remove_containers removes containers and their volumes: the runtime removes their cgroups, too.
remove_containers() {
	docker ps -aq | xargs -r timeout 120 docker rm -f -v >/dev/null || true
	docker volume prune -f >/dev/null || true
}

mkdir -p "$dir/probe" "$dir/engine"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false -trimpath" CGO_ENABLED=0
case ${1-} in
--check)
	can_start_nodes
	exit
	;;
--inside)
	shift
	with_own_engine "$@"
	exit
	;;
esac
if can_start_nodes; then exec "$@"; fi
if [[ $(id -u) != 0 ]] || ! command -v dockerd >/dev/null; then
	echo "error: start a privileged container: the container engine cannot. Only root can start another one, with dockerd" >&2
	exit 1
fi
go build -ldflags '-s -w' -o "$dir/runtime" ./hack/kind/runtime
exec 9>"$dir/engine.lock"
if ! flock -n 9; then
	echo "error: start dockerd: another hack/kind/engine.sh runs" >&2
	exit 1
fi
exec unshare --net --mount --pid --fork --kill-child --mount-proc hack/kind/engine.sh --inside "$@"
