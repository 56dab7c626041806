#!/usr/bin/env bash
# Copies into the charts what they share with config/: CRDs by the space that serves them, RBAC and admission policies by
# the space that they are for.
set -euo pipefail
cd "$(dirname "$0")/.."

for space in wds its; do
  rm -rf "charts/$space/manifests"
  mkdir -p "charts/$space/manifests/crd" "charts/$space/manifests/rbac"
  cp "config/rbac/$space/"*.yaml "charts/$space/manifests/rbac/"
done
for crd in config/crd/*.yaml; do
  case "$crd" in
    # Reports of the clusters lie in the mailboxes.
    *_workstatuses.yaml) space=its ;;
    *) space=wds ;;
  esac
  cp "$crd" "charts/$space/manifests/crd/"
done
