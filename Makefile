SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export CGO_ENABLED := 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tokenizers-lib
tokenizers-lib: ## build the tokenizer library once, into a cache outside the tree (TOKENIZERS_LIB=DIR: use a ready one)
	@tokenizer/hf/native/build.sh

.PHONY: build
build: tokenizers-lib ## build bin/plimsoll
	go build -trimpath -o bin/plimsoll ./cmd/plimsoll

.PHONY: test
test: tokenizers-lib ## run every Go test with the race detector
	go test -race -timeout 10m ./...
