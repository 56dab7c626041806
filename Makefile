# `make` lists the targets. Everything is built into bin/; nothing is installed elsewhere.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The same flags everywhere, also for images, so that Kubernetes is compiled once. VERSION sets the version, not the go
# command. Only the race detector needs C.
GOFLAGS := $(filter-out -buildvcs=% -trimpath,$(shell go env GOFLAGS)) -buildvcs=false -trimpath
CGO_ENABLED := 0
export GOFLAGS CGO_ENABLED
RACE := CGO_ENABLED=1

# Without a tag it is a semantic version too, because charts have it.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || \
	{ commit=$$(git describe --always --dirty --exclude '*' 2>/dev/null) && echo "v0.0.0-g$$commit"; } || echo v0.0.0-dev)
# The version that the API servers report. It must be the version in go.mod, because clients and OCM check it.
KUBERNETES := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' go.mod)
# Go's own linker: only the race detector needs the C toolchain, which takes twice as long to link 300 MB. Without tables
# for debuggers, as in images: so images have the programs of bin/ if they are for this machine.
LDFLAGS := -s -w -linkmode=internal -X github.com/starlinghq/starling/pkg/version.version=$(VERSION) \
	-X k8s.io/component-base/version.gitVersion=$(KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(subst ., ,$(KUBERNETES:v%=%))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES:v%=%)))

BIN := $(CURDIR)/bin
MODULES := . hack/tools hack/tools/coredns hack/tools/kubernetes hack/tools/kwok
CONTROLLERS := ./cmd/binding-controller ./cmd/transport-controller ./cmd/status-agent ./cmd/package-server
STARLING := $(BIN)/starling
# The kinds of porch.kpt.dev are served by package-server.
CUSTOM := $(filter-out api/porch,$(wildcard api/*))

##@ Use

help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile

# Shows progress: a build with an empty cache takes minutes.
BUILD = @hack/build.sh

build: build-kwok ## Build all programs into bin/.
	$(BUILD) "Compiling Kubernetes, etcd and Open Cluster Management: once, about 10 minutes with 2 cores. Later builds take seconds." \
		-ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	@install -m 755 hack/kubectl_complete-starling $(BIN)/

build-kwok:
	$(BUILD) "Compiling kwok, which simulates nodes: once, a minute or two." -C hack/tools/kwok -o $(BIN)/kwok sigs.k8s.io/kwok/cmd/kwok

# The controllers with the race detector, and everything else that a fleet needs.
build-race: build
	@$(RACE) hack/build.sh "Compiling the controllers with the race detector: once, some minutes." -race -ldflags '$(LDFLAGS)' -o $(BIN)/race/ $(CONTROLLERS)
	@ln -f $(BIN)/starling $(BIN)/kwok $(BIN)/race/

demo: ## Show objects and their status go through a fleet (DEMO: packages, variants, transactions or foresight; KEEP=1: keep the fleet).
	@hack/demo$(if $(DEMO),-$(DEMO)).sh

up: build ## Start a fleet in DIR with two clusters (ARGS: flags of starling up).
	$(STARLING) up --wecs 2 --nodes $(if $(DIR),--dir $(DIR)) $(ARGS)

down: ## Stop the fleet in DIR (ARGS=--delete: delete its data too).
	$(STARLING) down $(if $(DIR),--dir $(DIR)) $(ARGS)

clean: ## Delete bin/.
	rm -rf $(BIN)

##@ Test

# One stage after the other, each with as much at a time as keeps two processors busy. More only makes all of it slower, and
# the starts of API servers and kubeadm run into their timeouts. The walk mostly waits, so clusters of kind run beside it.
test: build test-unit $(BIN)/tools/gotestsum ## Run all tests but e2e-kind (before a commit, and in CI; KIND=1: e2e-kind too).
	@$(MAKE) test-integration
	@$(MAKE) test-e2e-stories
	@$(MAKE) -j2 test-e2e-walk $(if $(KIND),e2e-kind)
	$(check-rights)

# The race detector makes compiling, linking and running several times slower. So it has only the tests in whose process
# goroutines of ours run: not decisions, and not tests that start programs, render charts or check commands.
# Packages without tests are left out, or the race detector would compile Kubernetes for cmd/starling.
# pkg/runner has tests of both kinds.
plain-unit := api charts cmd config hack pkg/bundle pkg/certificates pkg/core pkg/hostedspace pkg/install test/rights
plain-integration := bundle charts content explain fanout hostedspace localfleet packagecli packages workagent
with-tests = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
units = $$($(with-tests) ./api/... ./cmd/... ./pkg/... ./charts ./config/... ./hack/... ./test/perf ./test/rights ./test/testenv ./test/testxpkg/... | \
	grep $1 -E '^[^/]+/[^/]+/[^/]+/($(subst $(space),|,$(plain-unit)))(/|$$)')
# The longest begin first, or they are left alone at the end.
longest := binding transport status foresight transactions variants localfleet packages hostedspace
integrations = $$(go list $(addprefix ./test/integration/,$(longest)) ./test/integration/... | awk '!seen[$$0]++' | grep $1 -E '/($(subst $(space),|,$(plain-integration)))$$')
space := $(subst ,, )

test-unit: ## Run the tests that need no API server.
	@$(MAKE) -j2 test-unit-plain test-unit-race

test-unit-plain: $(BIN)/tools/gotestsum
	$(GOTEST) -shuffle=on $(call units,) ./pkg/runner

test-unit-race: $(BIN)/tools/gotestsum
	$(RACE) $(GOTEST) -race -shuffle=on $(call units,-v)

# They wait for API servers, so three packages run at the same time. More make each fleet live longer, and idling costs: an
# API server takes 3 % of a processor.
test-integration: build $(BIN)/tools/gotestsum ## Run the tests against real API servers.
	@$(MAKE) -j2 test-integration-plain test-integration-race

test-integration-plain:
	STARLING_BIN_DIR=$(BIN) $(GOTEST) -p 1 -timeout 45m $(call integrations,)

test-integration-race:
	$(RACE) STARLING_BIN_DIR=$(BIN) $(GOTEST) -race -p 2 -timeout 45m $(call integrations,-v)

test-e2e: test-e2e-stories test-e2e-walk ## Run the tests against whole fleets with real OCM.
	$(check-rights)

# The walk takes minutes in which it mostly waits, and needs its fleet for itself.
e2e = STARLING_AUDIT_DIR=$(BIN)/rights STARLING_BIN_DIR=$(BIN) $(GOTEST) -p 2 -parallel 6 -timeout 45m
test-e2e-stories: no-rights $(BIN)/tools/gotestsum
	$(e2e) -skip '^TestWalk$$' ./test/e2e/...

test-e2e-walk: build $(BIN)/tools/gotestsum
	@mkdir -p $(BIN)/rights
	$(e2e) -run '^TestWalk$$' ./test/e2e

# Starling's identities may do what both have used, and no more.
check-rights = go run ./test/rights/check $(BIN)/rights

no-rights: build
	@rm -rf $(BIN)/rights && mkdir -p $(BIN)/rights

e2e-kind: build ## Run the tests on clusters of kind, if there is a container engine (ARGS: flags of the test binary).
	hack/kind/e2e.sh $(ARGS)

# Nothing to do without a container engine, or if the image is there.
kind-downloads:
	@if docker info >/dev/null 2>&1; then hack/kind/node-image.sh --download-only >/dev/null; fi

test-walk: build-race $(BIN)/tools/gotestsum ## Change a fleet at random, and kill its processes (WALK=10m).
	STARLING_BIN_DIR=$(BIN)/race STARLING_WALK=$(or $(WALK),10m) $(GOTEST) -run '^TestWalk$$' -timeout 60m ./test/e2e

# `make lint` runs vet. Go's own linker here too: with the race detector, the C toolchain would link each test. It takes a
# quarter less without tables for debuggers. Tests and linkers end soon: they need not collect garbage as often.
GOTEST = GOGC=400 $(BIN)/tools/gotestsum --format standard-quiet --format-hide-empty-pkg -- -count=1 -vet=off -ldflags='-s -w -linkmode=internal'

# A missed goal does not keep the others from running.
bench: ## Run all benchmarks of docs/performance.md except bench-fleet (ARGS=--check: fail if a goal is missed).
	@$(MAKE) -k bench-latency bench-placement bench-hub bench-status bench-packages bench-transactions bench-foresight bench-merge bench-sets

bench-compare: build $(BIN)/tools/benchstat ## Compare with a commit: BASE=COMMIT (ARGS: a command of test/perf and its flags; ROUNDS=3).
	hack/bench-compare.sh $(or $(BASE),$(error set BASE to the commit to compare with)) $(ARGS)

bench-latency: build ## Measure how long an edit in the WDS takes to a cluster and back (ARGS: flags of test/perf latency).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf latency $(ARGS)

bench-placement: build ## Measure placement on a thousand simulated clusters, compared with bare writes (ARGS: flags of test/perf placement).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf placement $(ARGS)

bench-hub: build ## Measure placement with the webhooks of OCM's hub, compared with bare writes (ARGS: flags of test/perf placement).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf placement --ocm --scenario edit-large,place --large-objects 20 --large-clusters 200 $(ARGS)

bench-fleet: build ## Measure 10,000 simulated clusters, in about 15 minutes (ARGS: flags of test/perf placement).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf placement --scenario fleet $(ARGS)

bench-status: build ## Measure how status returns (ARGS: flags of test/perf status).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf status $(ARGS)

bench-packages: build ## Measure the package store, compared with bare writes (ARGS: flags of test/perf packages).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf packages $(ARGS)

bench-transactions: build ## Measure transactions of packages: deep trees, updates with many CRDs, a thousand clusters (ARGS: flags of test/perf transactions).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf transactions $(ARGS)

bench-foresight: build ## Measure the commands that plan, explain and wait, compared with bare lists; test and measure their decisions (ARGS: flags of test/perf foresight).
	STARLING_BIN_DIR=$(BIN) go run ./test/perf foresight $(ARGS)
	go test -bench . ./pkg/core/foresight/...

bench-merge: ## Measure merging and rendering of packages of several sizes. The time per resource should be constant.
	go test -run '^$$' -bench '^Benchmark(Merge|AddMergeComments|Render)$$' ./pkg/core/packages/kpt/merge ./pkg/core/packages/kpt/render ./pkg/packages/functionrunner

bench-sets: ## Measure planning a PackageVariantSet with ten expressions. 5,000 targets must take less than a second.
	go test -run '^$$' -bench 'PlanSet|Compile' ./pkg/core/packages/variant

##@ Release

ARCHITECTURES ?= amd64 arm64
# Each image has one program, without anything else. The same commit gives the same bytes.
images: ## Build the container images of all programs into bin/images, without a container engine (ARCHITECTURES="amd64 arm64").
	@rm -rf $(BIN)/images
	@for arch in $(ARCHITECTURES); do mkdir -p $(BIN)/images/linux-$$arch; \
		if [[ linux-$$arch == "$$(go env GOOS)-$$(go env GOARCH)" ]]; then \
			cp $(addprefix $(BIN)/,$(notdir $(CONTROLLERS)) starling) $(BIN)/images/linux-$$arch/ 2>/dev/null || true; fi; \
		GOOS=linux GOARCH=$$arch hack/build.sh "Compiling for linux/$$arch: once, about 10 minutes with 2 cores." \
		-ldflags '$(LDFLAGS)' -o $(BIN)/images/linux-$$arch/ $(CONTROLLERS) ./cmd/starling; done
	go run ./hack/images build --from $(BIN)/images --version $(VERSION) --revision "$$(git rev-parse HEAD)" --created "$$(git log -1 --format=%ct)"

SYSTEMS ?= linux darwin
# The same commit gives the same bytes.
dist: ## Build what a release offers into bin/dist: archives, charts, checksums (SYSTEMS="linux darwin", ARCHITECTURES="amd64 arm64").
	@rm -rf $(BIN)/dist $(BIN)/programs
	@for GOOS in $(SYSTEMS); do for GOARCH in $(ARCHITECTURES); do export GOOS GOARCH; to=$(BIN)/programs/$$GOOS-$$GOARCH; mkdir -p $$to; \
		hack/build.sh "Compiling for $$GOOS/$$GOARCH: once, about 10 minutes with 2 cores." -ldflags '$(LDFLAGS)' -o $$to/ ./cmd/...; \
		hack/build.sh "Compiling kwok for $$GOOS/$$GOARCH: once, a minute or two." -C hack/tools/kwok -ldflags '-s -w' -o $$to/kwok sigs.k8s.io/kwok/cmd/kwok; \
	done; done
	go run ./hack/dist --from $(BIN)/programs --to $(BIN)/dist --version $(VERSION) --created "$$(git log -1 --format=%ct)"

push: ## Push the images of `make images` (REGISTRY: where to; ARGS: flags of hack/images push).
	go run ./hack/images push --from $(BIN)/images --tag $(VERSION) $(ARGS) $(REGISTRY)

##@ Develop

generate: $(BIN)/tools/controller-gen $(BIN)/tools/openapi-gen ## Write the generated files: deep copies, CRDs, OpenAPI, copies in charts, schemas.
	$(BIN)/tools/controller-gen object paths=./api/...
	$(BIN)/tools/controller-gen crd $(patsubst %,paths=./%/...,$(CUSTOM)) output:crd:dir=config/crd
	@# Crossplane's conditions have no message if there is nothing to say.
	sed -i '/^ *- message$$/d' config/crd/pkg.crossplane.io_*.yaml
	TOOL=$(BIN)/tools/openapi-gen hack/generate-openapi.sh
	go run ./hack/schemas pkg/core/packages/kpt/schema/kubernetes.json.gz
	hack/sync-charts.sh

fmt: $(BIN)/tools/golangci-lint ## Format the code.
	$(BIN)/tools/golangci-lint fmt

# The first time it analyses the dependencies too, and needs 7 GB. Without a limit it takes 20.
lint: $(BIN)/tools/golangci-lint ## Run the linters, which also check the direction of imports (FIX=1: fix what can be fixed).
	GOGC=200 GOMEMLIMIT=10GiB $(BIN)/tools/golangci-lint run $(if $(FIX),--fix)

verify: verify-generated verify-modules verify-links verify-words lint ## Check everything except tests: generated files, modules, links, words, lint.

verify-generated: $(BIN)/tools/controller-gen $(BIN)/tools/openapi-gen
	hack/verify-generated.sh

verify-modules:
	for module in $(MODULES); do go -C $$module mod tidy -diff; done

verify-words:
	go run ./hack/words

verify-links:
	hack/verify-links.sh

# Tools are built from their own module, again when a version in it changes.
tools := github.com/golangci/golangci-lint/v2/cmd/golangci-lint golang.org/x/perf/cmd/benchstat gotest.tools/gotestsum \
	k8s.io/kube-openapi/cmd/openapi-gen sigs.k8s.io/controller-tools/cmd/controller-gen
tools: $(addprefix $(BIN)/tools/,$(notdir $(tools)))
$(BIN)/tools/%: hack/tools/go.sum
	@hack/tool.sh $@ $(filter %/$*,$(tools))

.PHONY: help build build-kwok build-race demo up down clean test test-unit test-unit-plain test-unit-race test-integration test-integration-plain test-integration-race test-e2e test-e2e-stories test-e2e-walk no-rights kind-downloads bench bench-compare bench-latency bench-placement bench-hub bench-fleet bench-status bench-packages bench-transactions bench-foresight bench-merge bench-sets images dist push generate fmt \
	lint verify verify-generated verify-modules verify-links verify-words tools
