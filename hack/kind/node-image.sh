#!/usr/bin/env bash
# Prints the name of an image of kind's nodes, which the container engine has. It is kind's own image if that can be
# pulled. Otherwise it is assembled from Debian's packages and programs that are compiled here; that requires root. It is
# in $STARLING_KIND_CACHE/node-HASH.tar, by default in bin/kind, and is assembled again only if what it is made of changes.
#
# Usage: hack/kind/node-image.sh [--build-only | --download-only]
#   --build-only      Pull or assemble the image, but do not import it. It is for use before engine.sh, whose own engine
#                     has no network outside.
#   --download-only   Get what assembling the image downloads, but compile nothing. It is for use beside a compiler.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$PWD/bin/kind
cache=${STARLING_KIND_CACHE:-$dir}
import=1 compile=1
if [[ ${1-} == --build-only ]]; then import=; fi
if [[ ${1-} == --download-only ]]; then import='' compile=''; fi

export GOFLAGS="${GOFLAGS:-} -buildvcs=false -trimpath" CGO_ENABLED=0
kubernetes=$(awk '$1 == "k8s.io/kubernetes" {print $2}' go.mod)
packages=systemd-sysv,dbus,containerd,runc,iptables,iproute2,conntrack,ethtool,socat,kmod,util-linux,mount
packages+=,containernetworking-plugins,ca-certificates,procps
volumes=16 # PersistentVolumes of a cluster

say() { printf '%s\n' "$*" >&2; }

# pull pulls kind's own image. It fails if that takes too long.
pull() {
	own=$(sed -n 's/^const Image = "\(.*\)"/\1/p' "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kind)/pkg/apis/config/defaults/image.go")
	docker image inspect "$own" >/dev/null 2>&1 || timeout 180 docker pull -q "$own" >/dev/null 2>&1
}

# hash prints a hash of what the image is made of.
hash() {
	{
		echo "$kubernetes $(go env GOVERSION GOARCH)"
		find hack/kind/node-image.sh hack/kind/rootfs hack/kind/pause hack/images/{archive,image}.go hack/tools/kubernetes hack/tools/coredns \
			-type f -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-12
}

# debian keeps an archive with a root file system of Debian, because it takes minutes, and prints its name. It is a
# subshell, so that what it leaves is removed however it ends.
debian() (
	packed=$cache/debian-$(sha256sum <<<"$packages" | cut -c1-12).tar
	exec 8>"$packed.lock"
	flock 8 # it may be downloaded already
	if [[ ! -f $packed ]]; then
		if ! command -v debootstrap >/dev/null; then
			say "error: assemble the node image: install debootstrap"
			exit 1
		fi
		say "Installing Debian's packages for the node image: once, some minutes."
		root=$(mktemp -d "$dir/debian.XXXXXX")
		trap 'rm -rf "$root" "$packed.new"' EXIT
		if ! debootstrap --variant=minbase --include="$packages" bookworm "$root" http://deb.debian.org/debian >"$dir/debootstrap.log" 2>&1; then
			tail -n 5 "$dir/debootstrap.log" >&2
			say "error: install Debian's packages: see $dir/debootstrap.log"
			exit 1
		fi
		rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}/*
		tar -C "$root" -cf "$packed.new" .
		mv "$packed.new" "$packed"
	fi
	echo "$packed"
)

# compile compiles the programs of nodes into $work/bin.
compile() {
	local minor=${kubernetes#v1.} names=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubeadm kubectl kubelet)
	local package=k8s.io/component-base/version
	local flags="-s -w -linkmode=internal -X $package.gitVersion=$kubernetes -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
	hack/build.sh "Compiling Kubernetes for the node image: once, about 10 minutes with 2 cores." \
		-C hack/tools/kubernetes -ldflags "$flags" -o "$work/bin/" "${names[@]/#/k8s.io/kubernetes/cmd/}"
	hack/build.sh "Compiling etcd: once, a minute." -C hack/tools/kubernetes -ldflags '-s -w' -o "$work/bin/etcd" go.etcd.io/etcd/server/v3
	hack/build.sh "Compiling CoreDNS: once, some minutes." -C hack/tools/coredns -ldflags '-s -w' -o "$work/bin/coredns" .
	go build -ldflags '-s -w' -o "$work/bin/pause" ./hack/kind/pause
	go build -o "$work/images" ./hack/images
}

# image writes an archive of an image with the files of $work/image/PROGRAM and a program.
#   NAME PROGRAM PATH [ENTRYPOINT...]
image() {
	local name=$1 program=$2 path=$3 files=$work/image/$2
	shift 3
	mkdir -p "$files$(dirname "$path")"
	cp "$work/bin/$program" "$files$path"
	"$work/images" archive --name "$name" --root "$files" --to "$work/archives/$program.tar" "$@"
}

# write_images writes the images that kubeadm uses, with the names that it gives them.
write_images() {
	local name
	mkdir -p "$work/archives"
	copy_iptables "$work/image/kube-proxy"
	while read -r name; do
		case $name in
		*/coredns:*) image "$name" coredns /coredns /coredns ;;
		*/etcd:*) image "$name" etcd /usr/local/bin/etcd ;;
		*/kube-*:*) image "$name" "$(sed 's|.*/\(.*\):.*|\1|' <<<"$name")" "/usr/local/bin/$(sed 's|.*/\(.*\):.*|\1|' <<<"$name")" ;;
		*/pause:*) image "$name" pause /pause /pause && sed -i "s/@PAUSE@/${name##*:}/" "$root/etc/containerd/config.toml" ;;
		*) say "error: assemble the node image: kubeadm uses an image that is not known: $name" && exit 1 ;;
		esac
	done < <("$work/bin/kubeadm" config images list --kubernetes-version "$kubernetes")
}

# copy_iptables copies iptables and its libraries, which kube-proxy calls, to a directory.
copy_iptables() {
	local file to=$1
	mkdir -p "$to"/usr/sbin "$to/run" "$to/tmp"
	cp -a "$root"/usr/sbin/xtables-nft-multi "$to/usr/sbin/"
	for file in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
		ln -s xtables-nft-multi "$to/usr/sbin/$file"
	done
	ln -s usr/sbin "$to/sbin"
	(cd "$root" && cp -aL --parents usr/lib/*/xtables "$to")
	# The extensions need other libraries than the program: one for Services with several endpoints needs libm.
	chroot "$root" sh -c 'ldd /usr/sbin/xtables-nft-multi /usr/lib/*/xtables/*.so' | grep -o '=> /[^ ]*\|^\s*/[^ ]*ld-linux[^ ]*' | grep -o '/.*' | sort -u | while read -r file; do
		mkdir -p "$to$(dirname "$file")"
		cp -L "$root$file" "$to$file"
	done
}

# write_storage writes the StorageClass that is the default, and volumes of it. Everybody may write there. /var of a node
# is a volume of the engine, with what the image has there.
write_storage() {
	local i to=$root/kind/manifests/default-storage.yaml
	cat >"$to" <<-'EOF'
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata:
		  name: standard
		  annotations:
		    storageclass.kubernetes.io/is-default-class: "true"
		provisioner: kubernetes.io/no-provisioner
		volumeBindingMode: WaitForFirstConsumer
	EOF
	for ((i = 1; i <= volumes; i++)); do
		mkdir -p "$root/var/lib/volumes/$i"
		chmod 777 "$root/var/lib/volumes/$i"
		cat >>"$to" <<-EOF
			---
			apiVersion: v1
			kind: PersistentVolume
			metadata:
			  name: volume-$i
			spec:
			  accessModes: [ReadWriteOnce]
			  capacity:
			    storage: 10Gi
			  hostPath:
			    path: /var/lib/volumes/$i
			  storageClassName: standard
		EOF
	done
}

# load_images loads the images into the store of the node's containerd.
load_images() {
	mkdir "$root/kind/archives"
	mv "$work"/archives/*.tar "$root/kind/archives/"
	unshare --mount --pid --fork --kill-child chroot "$root" bash -euo pipefail -c '
		mount -t proc proc /proc
		mount -t tmpfs tmpfs /run
		containerd --config /etc/containerd/config.toml >/run/log 2>&1 &
		for ((i = 0; i < 150; i++)); do
			if ctr version >/dev/null 2>&1; then break; fi
			sleep 0.2
		done
		for archive in /kind/archives/*; do
			ctr --namespace k8s.io images import --no-unpack "$archive" || { tail -n 5 /run/log >&2; exit 1; }
		done
		kill $! && wait $! || true' >/dev/null
	rm -r "$root/kind/archives"
}

# assemble writes the file system of the image into an archive.
assemble() {
	local unit
	if [[ $(id -u) != 0 ]]; then
		say "error: assemble the node image: it cannot be pulled, and only root can assemble it"
		exit 1
	fi
	work=$(mktemp -d "$dir/work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	root=$work/root
	mkdir "$root"
	compile
	packed=$(debian) # alone: its failure ends the script
	tar -C "$root" -xf "$packed"
	cp -a --no-preserve=ownership hack/kind/rootfs/. "$root/"
	echo "$kubernetes" >"$root/kind/version"
	install -m 755 "$work"/bin/kube{adm,ctl,let} "$root/usr/local/bin/"
	: >"$root/etc/resolv.conf"
	write_images
	write_storage
	load_images
	for unit in getty-static.service getty@.service console-getty.service systemd-logind.service systemd-udevd.service \
		systemd-modules-load.service systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer; do
		ln -sf /dev/null "$root/etc/systemd/system/$unit"
	done
	chroot "$root" systemctl --quiet enable containerd kubelet
	chroot "$root" systemctl --quiet set-default multi-user.target
	rm -f "$cache"/node-*.tar # of other versions
	tar -C "$root" --numeric-owner -cf "$archive.new" .
	mv "$archive.new" "$archive"
}

mkdir -p "$dir" "$cache"
if docker info >/dev/null 2>&1 && { [[ -n $import ]] || hack/kind/engine.sh --check; } && pull; then
	echo "$own"
	exit
fi
version=$(hash)
archive=$cache/node-$version.tar
name=starling/kind-node:$version
if [[ -n $import ]] && docker image inspect "$name" >/dev/null 2>&1; then
	echo "$name"
	exit
fi
if [[ ! -f $archive && -z $compile ]]; then
	debian >/dev/null
	go -C hack/tools/kubernetes mod download
	go -C hack/tools/coredns mod download
	exit
fi
if [[ ! -f $archive ]]; then assemble; fi
if [[ -n $import ]]; then
	docker images -q starling/kind-node | xargs -r docker rmi -f >/dev/null # of other versions
	docker import --change 'ENV container=docker' --change 'ENTRYPOINT ["/kind/entrypoint", "/sbin/init"]' "$archive" "$name" >/dev/null
fi
echo "$name"
