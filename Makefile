# What a developer runs; `make help` lists it.
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

.PHONY: generate
generate: ## Generate messages/*.pb.go from messages/proto
	go -C tools build -o ../bin/generate ./generate
	bin/generate messages/proto messages

.PHONY: test
test: ## Run all tests
	go test ./...

.PHONY: race
race: ## Run the tests of all that runs concurrently with the race detector
	.ci/run race

.PHONY: lint
lint: ## Check formatting, go vet and staticcheck
	.ci/run format vet lint

.PHONY: bench
bench: ## Run the benchmarks beside loops by hand (minutes; not on a busy machine)
	go test ./bench -run '^$$' -bench . -benchtime 1x -timeout 30m

.PHONY: mutate
mutate: ## Negate each guard of the machines and see a test fail (minutes)
	go -C tools build -o ../bin/mutate ./mutate
	bin/mutate

.PHONY: chaos
chaos: ## Break a cluster of processes, ROUNDS times (100; about 40 s each; as root also its network)
	go test ./test/chaos -run 'TestChaos$$' -v -rounds $(or $(ROUNDS),100) -seed $(or $(SEED),1) -span 30s -longest-pause 60s -timeout 24h

.PHONY: nightly
nightly: ## Run 10,000 seeds of the simulation, long random walks, the fuzz targets, the race detector and the kill tests
	.ci/run nightly

.PHONY: verify
verify: ## Run everything that must hold before a merge
	.ci/run
