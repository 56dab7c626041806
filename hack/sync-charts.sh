#!/usr/bin/env bash
# Copies CRDs, RBAC and admission policies from config/ into the charts of the WDS and of the ITS, and alerts and the
# dashboard into the chart "starling".
set -euo pipefail
cd "$(dirname "$0")/.."

for space in wds its; do
  rm -rf "charts/$space/manifests"
  mkdir -p "charts/$space/manifests/crd" "charts/$space/manifests/rbac"
  cp "config/rbac/$space/"*.yaml "charts/$space/manifests/rbac/"
done
for crd in config/crd/*.yaml; do
  case "$crd" in
    # WorkStatuses are in the mailboxes.
    *_workstatuses.yaml) spaces=its ;;
    # A WDS has one Lock, an ITS one for each cluster.
    *_locks.yaml) spaces="wds its" ;;
    *) spaces=wds ;;
  esac
  for space in $spaces; do
    cp "$crd" "charts/$space/manifests/crd/"
  done
done
mkdir -p charts/starling/monitoring
cp config/monitoring/alerts.yaml config/monitoring/dashboard.json charts/starling/monitoring/
