#!/usr/bin/env bash
# Writes the OpenAPI definitions of the kinds that package-server serves, for kubectl explain and server-side apply. TOOL is the path
# of openapi-gen.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# No headers and no reports. The names of models are written first, and only for Starling's types: files cannot be written into
# the directories of Kubernetes' modules.
common=(--go-header-file /dev/null --report-filename /dev/null)
"$TOOL" "${common[@]}" --output-model-name-file zz_generated.model_name.go \
	--output-pkg scratch/openapi --output-dir "$scratch" --output-file scratch.go ./api/porch/v1alpha1
"$TOOL" "${common[@]}" --output-pkg github.com/starlinghq/starling/api/generated/openapi \
	--output-dir api/generated/openapi --output-file zz_generated.openapi.go \
	./api/porch/v1alpha1 k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,version}
