# Few targets. Each installs what it needs: Go modules by go, the rest by apt-get.

GO       ?= go
NAME     ?= snapctl
PREFIX   ?= /usr/local
FUZZTIME ?= 5m
SIZE     ?= small
STATES   ?= 1000000
SOAKTIME ?= 1h
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD     = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'

.PHONY: quickstart build install test test-servers explore soak lint fuzz bench docs

quickstart: build ## save a workspace, destroy it, restore it, prove it identical
	bench/quickstart.sh bin/snapctl

build: ## bin/snapctl
	$(BUILD) -o bin/snapctl ./cmd/snapctl

install: build ## install as $(PREFIX)/bin/$(NAME): snapd ships a program of the same name
	install -D -m 0755 bin/snapctl $(DESTDIR)$(PREFIX)/bin/$(NAME)

test: ## every test that needs no server, with the race detector; then what counts allocations, without it
	.ci/need git rsync /usr/bin/time
	.ci/scratch $(GO) test -race -timeout 25m ./...
	$(GO) test -run 'DoNotAllocate$$' ./index

test-servers: ## the suites that need real filesystems or servers; started and stopped here
	.ci/servers

explore: ## real writers and collectors, one request at a time in every order: up to $(STATES) states a scenario
	$(GO) test -count=1 -timeout 0 -v -run '^(TestScenarios|TestFaultsOfRequests|TestWalks)$$' ./gc/explore -args -full -states $(STATES)

soak: ## real processes with wrong clocks, killed and stopped at random, for $(SOAKTIME) in a directory and as long in a bucket
	$(GO) test -count=1 -tags servers -timeout 0 -v -run '^TestSoak' ./cmd/snapctl -soak.duration $(SOAKTIME) -soak.writers 8 -soak.stop 1m

lint: ## gofmt, go vet, staticcheck: no finding is allowed
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt: $$files"; exit 1; }
	$(GO) vet -tags servers,seaweedfs,soak ./...
	$(GO) tool staticcheck -tags servers,seaweedfs,soak ./...

fuzz: ## every fuzz target for $(FUZZTIME)
	fuzz/run.sh $(FUZZTIME)

bench: build ## compare with restic, kopia, tar: SIZE=small or SIZE=full
	$(GO) run ./bench -size $(SIZE)

docs: build ## man pages and shell completions below bin/
	bin/snapctl man bin/man
	mkdir -p bin/completion
	for s in bash zsh fish; do bin/snapctl completion $$s > bin/completion/snapctl.$$s; done
