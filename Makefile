# What a maintainer runs. A user needs none of it: see README.md for the two commands.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
FUZZTIME   ?= 10s
SEEDS      ?= 10000
FIRST      ?= 1
FUZZ       ?= .
RULEBREAKS ?= .

.PHONY: test race lint fuzz bench soak sim rulebreaks kill examples deps integration newest help

test: ## the README's test command
	go test ./...

race: ## the same under the race detector
	go test -race ./...

lint: ## vet, staticcheck, formatting
	go vet ./...
	go vet -C integration ./...
	go run $(STATICCHECK) ./...
	cd integration && go run $(STATICCHECK) ./...
	@unformatted=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not gofumpt-clean:"; echo "$$unformatted"; exit 1; fi

fuzz: ## every decoder, $(FUZZTIME) each; FUZZ=pattern for some of them
	@./.ci/fuzz $(FUZZTIME) '$(FUZZ)'

bench: ## the limits and ours, side by side in one run
	go test -run '^$$' -bench . -benchmem ./walstorage/segment ./metadata ./leader ./local ./metadata/filelog ./metadata/kafkalog ./unifiedlog

soak: ## random stories of the simulator, $(SEEDS) of them from seed $(FIRST) on
	go test ./internal/sim -run TestSeeds -count=1 -seeds=$(SEEDS) -first=$(FIRST) -timeout 24h -v

sim: ## the simulator: every history, and that a seed gives one trace
	go test ./internal/sim -v -count=1

rulebreaks: ## rules broken in a copy, each must be caught; RULEBREAKS=5 for five by turns, RULEBREAKS=pattern for some
	@./.ci/rulebreaks '$(RULEBREAKS)'

kill: ## a leader killed 50 times in the midst of its work
	go test ./examples/quickstart -count=1 -run TestKill -kills=50 -v

examples: ## quickstart and cluster as a newcomer starts them
	go run ./examples/quickstart
	go run ./examples/cluster

deps: ## what importing the core brings along
	@./.ci/deps

integration: ## the suites on real servers, which are installed at first; SERVERS=seaweedfs for another than those of every run
	@./.ci/integration $(SERVERS)

newest: ## the cloud stores with the newest SDKs, in process
	@./.ci/newest

help: ## this list
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
