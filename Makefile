# `make` lists the targets. Everything that is built lies under bin/; nothing is installed elsewhere.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The same flags everywhere, so that Kubernetes is compiled once. The version is stamped by VERSION, not by the go command.
GOFLAGS := $(filter-out -buildvcs=%,$(shell go env GOFLAGS)) -buildvcs=false
export GOFLAGS

VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo v0.0.0-dev)
# What our API servers say they are; must be the version in go.mod, since clients and OCM look at it.
KUBERNETES := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' go.mod)
# Linked by Go itself: only the race detector needs the C toolchain, and linking 300 MB with it takes twice as long.
LDFLAGS := -linkmode=internal -X github.com/starlinghq/starling/pkg/version.version=$(VERSION) \
	-X k8s.io/component-base/version.gitVersion=$(KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(subst ., ,$(KUBERNETES:v%=%))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES:v%=%)))

BIN := $(CURDIR)/bin
MODULES := . hack/tools hack/tools/kwok
CONTROLLERS := ./cmd/binding-controller ./cmd/transport-controller ./cmd/status-agent ./cmd/package-server
STARLING := $(BIN)/starling
# The kinds of porch.kpt.dev are served by package-server.
CUSTOM := $(filter-out api/porch,$(wildcard api/*))

##@ Use

help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile

build: build-kwok ## Build all programs into bin/.
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	install -m 755 hack/kubectl_complete-starling $(BIN)/

build-kwok:
	go build -C hack/tools/kwok -o $(BIN)/kwok sigs.k8s.io/kwok/cmd/kwok

# Controllers with the race detector, beside everything else that a fleet needs: what the end-to-end tests run.
build-race: build
	go build -race -ldflags '$(LDFLAGS)' -o $(BIN)/race/ $(CONTROLLERS)
	ln -f $(BIN)/starling $(BIN)/kwok $(BIN)/race/

demo: ## Bring up a fleet, carry objects to two clusters, show their status come back, and clean up (KEEP=1: do not; DEMO=packages: packages; DEMO=variants: packages in clusters).
	@hack/demo$(if $(DEMO),-$(DEMO)).sh

up: build ## Bring up a fleet in DIR with two clusters (ARGS: flags of starling up).
	$(STARLING) up --wecs 2 --nodes $(if $(DIR),--dir $(DIR)) $(ARGS)

down: ## Stop the fleet in DIR (ARGS=--delete: and remove its data).
	$(STARLING) down $(if $(DIR),--dir $(DIR)) $(ARGS)

clean: ## Remove what was built.
	rm -rf $(BIN)

##@ Test

test: build-race test-unit test-integration test-e2e ## Run all tests (before a commit, and in CI).

# Packages without tests are left out, or the race detector would compile Kubernetes for cmd/starling.
test-unit: $(BIN)/tools/gotestsum ## Run the tests that need no API server.
	$(GOTEST) -race -shuffle=on $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./api/... ./cmd/... ./pkg/... ./test/perf)

test-integration: build $(BIN)/tools/gotestsum ## Run the tests against real API servers.
	STARLING_BIN_DIR=$(BIN) $(GOTEST) -race -p 1 -timeout 45m ./test/integration/...

test-e2e: build-race $(BIN)/tools/gotestsum ## Run the tests against whole fleets with real OCM.
	STARLING_BIN_DIR=$(BIN)/race $(GOTEST) -p 1 -timeout 45m ./test/e2e/...

GOTEST = $(BIN)/tools/gotestsum --format standard-quiet --format-hide-empty-pkg -- -count=1

bench: bench-latency bench-placement bench-status bench-packages bench-merge bench-sets ## Measure all that docs/performance.md tells of (ARGS: flags of all, such as -o bench).

bench-latency: build ## Measure latency from the WDS to the clusters and back (ARGS: flags of test/perf latency).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf latency $(ARGS)

bench-placement: build ## Measure placement on a thousand simulated clusters beside bare writes (ARGS: flags of test/perf placement).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf placement $(ARGS)

bench-status: build ## Measure how status comes back (ARGS: flags of test/perf status).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf status $(ARGS)

bench-packages: build ## Measure the package store beside bare writes (ARGS: flags of test/perf packages).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf packages $(ARGS)

bench-merge: ## Measure merging and rendering by the size of packages: the time per resource should not depend on it.
	go test -run '^$$' -bench '^Benchmark(Merge|AddMergeComments|Render)$$' ./pkg/core/kptpkg/merge ./pkg/core/kptpkg/render ./pkg/fnworker

bench-sets: ## Measure how long it takes to plan a PackageVariantSet with ten expressions, by the number of its targets: 5,000 must take less than a second.
	go test -run '^$$' -bench 'PlanSet|Compile' ./pkg/core/variant

##@ Develop

generate: $(BIN)/tools/controller-gen $(BIN)/tools/openapi-gen ## Write deep copies, CRDs, OpenAPI definitions, what the charts copy of them, and the schemas of built-in kinds.
	$(BIN)/tools/controller-gen object paths=./api/...
	$(BIN)/tools/controller-gen crd $(patsubst %,paths=./%/...,$(CUSTOM)) output:crd:dir=config/crd
	TOOL=$(BIN)/tools/openapi-gen hack/generate-openapi.sh
	go run ./hack/schemas pkg/core/kptpkg/schema/kubernetes.json.gz
	hack/sync-charts.sh

fmt: $(BIN)/tools/golangci-lint ## Format the code.
	$(BIN)/tools/golangci-lint fmt

lint: $(BIN)/tools/golangci-lint ## Run the linters, which also hold the direction of imports (FIX=1: repair what can be).
	$(BIN)/tools/golangci-lint run $(if $(FIX),--fix)

verify: verify-generated verify-modules verify-links lint ## Check all that is no test: generated files, modules, links, lint.

verify-generated: $(BIN)/tools/controller-gen $(BIN)/tools/openapi-gen
	hack/verify-generated.sh

verify-modules:
	for module in $(MODULES); do go -C $$module mod tidy -diff; done

verify-links:
	hack/verify-links.sh

# Tools are built from their own module, anew when a version in it changes.
tools := github.com/golangci/golangci-lint/v2/cmd/golangci-lint golang.org/x/perf/cmd/benchstat gotest.tools/gotestsum \
	k8s.io/kube-openapi/cmd/openapi-gen sigs.k8s.io/controller-tools/cmd/controller-gen
tools: $(addprefix $(BIN)/tools/,$(notdir $(tools)))
$(BIN)/tools/%: hack/tools/go.sum
	go build -C hack/tools -o $@ $(filter %/$*,$(tools))

.PHONY: help build build-kwok build-race demo up down clean test test-unit test-integration test-e2e bench bench-latency bench-placement bench-status bench-packages bench-merge bench-sets generate fmt \
	lint verify verify-generated verify-modules verify-links tools
