#!/usr/bin/env bash
# Writes the OpenAPI definitions of what package-server serves: kubectl explain shows them, and server-side apply goes by them.
# TOOL is openapi-gen.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# No headers and no reports. Names come first, for our types alone: beside those of Kubernetes nothing can be written.
common=(--go-header-file /dev/null --report-filename /dev/null)
"$TOOL" "${common[@]}" --output-model-name-file zz_generated.model_name.go \
	--output-pkg scratch/openapi --output-dir "$scratch" --output-file scratch.go ./api/porch/v1alpha1
"$TOOL" "${common[@]}" --output-pkg github.com/starlinghq/starling/pkg/packageserver/openapi \
	--output-dir pkg/packageserver/openapi --output-file zz_generated.openapi.go \
	./api/porch/v1alpha1 k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,version}
