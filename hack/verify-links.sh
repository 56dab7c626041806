#!/usr/bin/env bash
# Fails when a program or a test binary other than cmd/starling links Kubernetes' servers, etcd or OCM's controllers,
# however indirectly: they would grow by 200 MiB, take minutes to build, and start slower.
set -euo pipefail
cd "$(dirname "$0")/.."

heavy='^(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3|open-cluster-management\.io/ocm)(/|$)'

# A line per package, test variants included: its path, a tab, everything that it links.
go list -test -f '{{.ImportPath}}{{"\t"}}{{join .Deps " "}}' ./... |
	awk -F '\t' -v heavy="$heavy" '
		$1 ~ "^github.com/starlinghq/starling/cmd/starling(/[a-z]+)*$" { next }
		{
			n = split($2, deps, " ")
			for (i = 1; i <= n; i++) if (deps[i] ~ heavy) {
				printf "%s links %s: only cmd/starling may\n", $1, deps[i]
				found = 1
				break
			}
		}
		END { exit found }'
