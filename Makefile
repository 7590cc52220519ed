# `make` lists all targets.
.DEFAULT_GOAL := help
.PHONY: help tools test race check lint api fmt quickstart fuzz account bench figures model spool durable damage simulate order formats nemesis load e2e pictures terminal docs docs-preview cross modules ci

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run the tests
	go test ./...

race: ## run the tests under the race detector
	go test -race ./...

TOOL_BIN = .tools/bin
MODULES = $(shell go list -m -f "{{.Dir}}")

tools:
	GOWORK=off GOBIN=$(CURDIR)/$(TOOL_BIN) go -C .tools install tool ./...
	GOWORK=off GOBIN=$(CURDIR)/$(TOOL_BIN) go -C .tools/actionlint install tool

check: ## check the packages that differ from main: format, linters and short tests
	@.ci/check

lint: tools ## run the linters, and check for unreachable code and API changes
	@$(TOOL_BIN)/actionlint -color=false
	@$(TOOL_BIN)/actionlint -color=false examples/node/workflow.yml examples/playwright/workflow.yml
	@$(TOOL_BIN)/golangci-lint run --allow-parallel-runners $(addsuffix /...,$(MODULES))
	@go vet $$(git grep -l '^// Code generated' -- '*.go' | xargs dirname | sort -u | sed 's|^|./|') # the linters skip generated code
	@cd .tools && GOWORK=off go vet ./... && GOWORK=off go test ./...
	@# deploy is one package with many dependencies: the linters find its unused functions.
	@! $(TOOL_BIN)/deadcode -test $(addsuffix /...,$(filter-out %/deploy,$(MODULES))) | grep . || { echo "these functions are unreachable, even from tests: delete them"; exit 1; }
	@{ $(TOOL_BIN)/repo api $(API_PACKAGES) | diff -u api.txt - && $(TOOL_BIN)/repo api $(COMPAT) | diff -u $(COMPAT)/api.txt -; } || \
		{ echo "the public API changed: if this is intended, run make api"; exit 1; }

API_PACKAGES = . ./typed ./mockserver ./mockserver/tracking ./mockserver/webhook ./otelanalytics
COMPAT = ./compat/v3
api: tools ## write the public API to api.txt and compat/v3/api.txt
	$(TOOL_BIN)/repo api $(API_PACKAGES) > api.txt
	$(TOOL_BIN)/repo api $(COMPAT) > $(COMPAT)/api.txt

fmt: ## format the code
	gofmt -w .

quickstart: ## send one call of each type to a signed webhook
	go run ./examples/quickstart

FUZZTIME ?= 30s
fuzz: ## run each fuzz target of all modules for FUZZTIME (30s)
	@for package in $$(go list $(addsuffix /...,$(MODULES))); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "== $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

bench: ## measure the client and other libraries: 15 minutes, or one with BENCH=-quick
	go run ./bench $(BENCH)

figures: ## write the figures of bench/figures.json into the documents and draw the chart; new figures: make bench BENCH='-record bench/figures.json'
	go run ./bench -render .

ACCOUNT_SEEDS ?= 3000
account: ## run the client's randomized accounting test with ACCOUNT_SEEDS (3000) seeds
	ACCOUNT_SEEDS=$(ACCOUNT_SEEDS) go test -count=1 -timeout 30m -run AccountHolds .

MODEL_STEPS ?= 5000
model: ## run the randomized and large tests of audiences at full length
	MODEL_STEPS=$(MODEL_STEPS) MODEL_SEED=$$$$ go test -v -timeout 30m -run 'ReceiversKnowTheLastLists' ./mockserver/internal/users
	SYNC_KILLS=100 MEMBERS=1000000 go test -v -timeout 30m -run 'AudienceSurvivesKills|LargeAudience' ./mockserver/collector/e2e

SPOOL_KILLS ?= 50
SPOOL_MEGABYTES ?= 10240
spool: ## kill a process with a spool SPOOL_KILLS (50) times, and send a backlog of 10 GB
	ANALYTICS_TEST_KILLS=$(SPOOL_KILLS) go test -count=1 -v -timeout 10m -run '^TestSpoolSurvivesKill$$' .
	ANALYTICS_TEST_BACKLOG_MB=$(SPOOL_MEGABYTES) go test -count=1 -v -timeout 20m -run '^TestSpoolBacklog$$' ./internal/pipeline

COLLECTOR = ./mockserver/collector
durable: ## test crashes, power cuts, clusters and undeliverable calls at full length
	JOURNAL_KILLS=20 JOURNAL_CUTS=10 JOURNAL_CLUSTER_KILLS=6 JOURNAL_STARTS=20 go test -count=1 -v -timeout 30m -run 'Kill|PowerCut|Cluster|StartConcurrently' $(COLLECTOR)/internal/jetstream
	COLLECTOR_KILLS=20 COLLECTOR_CLUSTER_KILLS=6 COLLECTOR_RETRY_AFTER_KILLS=10 COLLECTOR_RELAY_KILLS=40 COLLECTOR_TRANSFORM_KILLS=20 COLLECTOR_BAD_CALLS=10000 go test -count=1 -v -timeout 30m -run 'Kill|Cluster|Disk|ReadOnly|BadCalls' $(COLLECTOR)/e2e

JOURNAL_FLIPS ?= 100
LIST_FLIPS ?= 200
damage: ## flip JOURNAL_FLIPS (100) bits in each queue file and LIST_FLIPS (200) in lists of users; run a long random test
	JOURNAL_SEED=$$$$ JOURNAL_FLIPS=$(JOURNAL_FLIPS) JOURNAL_STEPS=5000 go test -count=1 -v -timeout 120m -run 'FlippedBit|DamagedRecord|MissingBlocks|RandomOperations' $(COLLECTOR)/internal/jetstream
	JOURNAL_SEED=$$$$ LIST_FLIPS=$(LIST_FLIPS) go test -count=1 -v -timeout 60m -run '^TestLostListRecords$$' $(COLLECTOR)/internal/service

SEEDS ?= 10000
simulate: ## simulate the queue and the complete system, with SEEDS (10000) seeds, or from SEED to SEEDS
	SEEDS=$(SEEDS) go test -count=1 -timeout 120m -run '^TestSimulation$$' $(COLLECTOR)/internal/jetstream
	SEEDS=$(SEEDS) go test -count=1 -timeout 300m -run '^TestSystemSimulation$$' $(COLLECTOR)/internal/jetstream

ORDER_SEEDS ?= 5000
HOLD_SEEDS ?= 500
order: ## test ordered delivery under failures, pauses and kills (ORDER_SEEDS, 5000) and takeovers (HOLD_SEEDS, 500)
	ORDER_SEEDS=$(ORDER_SEEDS) go test -count=1 -timeout 60m -run '^TestOrderModel$$' ./mockserver/internal/delivery
	HOLD_SEEDS=$(HOLD_SEEDS) go test -count=1 -timeout 60m -run '^TestHoldModel$$' $(COLLECTOR)/internal/jetstream
	COLLECTOR_KILLS=20 go test -count=1 -v -timeout 30m -run '^TestKillsKeepTheOrder$$' $(COLLECTOR)/e2e

formats: ## store the data formats of this version, for the tests of later versions
	FORMATS=1 go test -count=1 -run '^TestWriteSpoolFormat$$' .
	FORMATS=testdata/formats go test -count=1 -run '^TestFormatIsLeft$$' $(COLLECTOR)/e2e

NEMESIS_ROUNDS ?= 10
NEMESIS_SEED ?= $(shell date +%s)
nemesis: ## run the fault injection suite, NEMESIS_ROUNDS (10) rounds of each scenario; needs root
	@echo "NEMESIS_SEED=$(NEMESIS_SEED); the full log is nemesis.log"
	@NEMESIS_ROUNDS=$(NEMESIS_ROUNDS) NEMESIS_SEED=$(NEMESIS_SEED) NEMESIS_REPORT=$(CURDIR)/nemesis.md \
		go test -count=1 -v -timeout 2h ./nemesis/... > nemesis.log 2>&1; status=$$?; \
		grep -E '^ *--- FAIL|^(ok|FAIL)' nemesis.log; cat nemesis.md; exit $$status

load: ## measure the collector; two minutes with BENCH=-quick
	go run ./bench $(BENCH) collector

E2E = ./mockserver/internal/inspector/e2e
LOAD ?= 30s
e2e: ## run the inspector's browser tests, with 1,000 calls per second for LOAD (30s)
	REQUIRE_CHROMIUM=1 LOAD=$(LOAD) go test -count=1 -v -timeout 20m $(E2E)

PICTURES ?= $(CURDIR)/mockserver/internal/inspector/e2e/screenshots
pictures: ## take screenshots of each page of the inspector, in the directory PICTURES
	SCREENSHOTS=$(PICTURES) REQUIRE_CHROMIUM=1 go test -count=1 -run Pictures $(E2E)

terminal: ## draw collector dev in a terminal, for docs/inspector.md
	PICTURES=$(CURDIR)/docs go test -count=1 -run '^TestScreenshots$$' $(COLLECTOR)/internal/cli

NPM = npm --prefix docs
docs: ## build the documentation site in docs/.vitepress/dist, and check its links; needs npm
	$(NPM) install --no-save --no-audit --no-fund --ignore-scripts
	$(NPM) run build
	SITE=$(CURDIR)/docs/.vitepress/dist go test -count=1 -run '^TestSite$$' ./internal/documents

docs-preview: docs ## serve the documentation site on a local port; needs npm
	$(NPM) run preview

PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
cross: ## build each module for each platform; the first run is slow
	@for platform in $(PLATFORMS); do \
		echo $$platform; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go build $(addsuffix /...,$(MODULES)) || exit 1; \
	done

modules: ## type-check all packages for each system and each module alone, and install the command as users do
	bash .ci/modules

ci: ## run all checks, as CI does
	bash .ci/run
