# Everything a developer runs; `make help` lists it. CI runs .ci/run.
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: generate
generate: ## Generate messages/*.pb.go from messages/proto
	cd tools && go build -o ../bin/generate ./generate
	./bin/generate messages/proto messages

.PHONY: test
test: ## Run all tests
	go test ./...

.PHONY: race
race: ## Run the short tests with the race detector
	go test -race -short ./...
