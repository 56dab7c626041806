#!/usr/bin/env bash
# Fails if a program or a test binary other than cmd/starling links Kubernetes' servers, etcd or OCM's controllers, also
# indirectly: it would be 200 MiB larger, take minutes to build, and start more slowly. test/integration/workagent may: it
# shows what OCM's agent does.
set -euo pipefail
cd "$(dirname "$0")/.."

heavy='^(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3|open-cluster-management\.io/ocm/pkg)(/|$)'

# One line per package, including those with tests: its path, a tab, all packages that it links.
go list -test -f '{{.ImportPath}}{{"\t"}}{{join .Deps " "}}' ./... |
	awk -F '\t' -v heavy="$heavy" '
		$1 ~ "^github.com/starlinghq/starling/cmd/starling(/[a-z]+)*$" { next }
		$1 ~ "^github.com/starlinghq/starling/cmd/starling/(etcdsnapshot|wdsserver)" { next }
		$1 ~ "^github.com/starlinghq/starling/test/integration/workagent" { next }
		{
			n = split($2, deps, " ")
			for (i = 1; i <= n; i++) if (deps[i] ~ heavy) {
				printf "%s links %s: only cmd/starling may\n", $1, deps[i]
				found = 1
				break
			}
		}
		END { exit found }'
