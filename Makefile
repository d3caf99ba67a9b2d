# Few targets. Each installs what it needs: Go modules by go, the rest by apt-get.

GO       ?= go
NAME     ?= snapctl
PREFIX   ?= /usr/local
FUZZTIME ?= 5m
SIZE     ?= small
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD     = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'

.PHONY: quickstart build install test test-servers lint fuzz bench docs

quickstart: build ## save a workspace, destroy it, restore it, prove it identical
	bench/quickstart.sh bin/snapctl

build: ## bin/snapctl
	$(BUILD) -o bin/snapctl ./cmd/snapctl

install: build ## install as $(PREFIX)/bin/$(NAME): snapd ships a program of the same name
	install -D -m 0755 bin/snapctl $(DESTDIR)$(PREFIX)/bin/$(NAME)

test: ## every test that needs no server, with the race detector
	.ci/need git rsync /usr/bin/time
	$(GO) test -race -timeout 25m ./...

test-servers: ## the suites that need real filesystems or servers; started and stopped here
	.ci/servers

lint: ## gofmt, go vet, staticcheck: no finding is allowed
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt: $$files"; exit 1; }
	$(GO) vet -tags servers,seaweedfs ./...
	$(GO) tool staticcheck -tags servers,seaweedfs ./...

fuzz: ## every fuzz target for $(FUZZTIME)
	fuzz/run.sh $(FUZZTIME)

bench: build ## compare with restic, kopia, tar: SIZE=small or SIZE=full
	$(GO) run ./bench -size $(SIZE)

docs: build ## man pages and shell completions below bin/
	bin/snapctl man bin/man
	mkdir -p bin/completion
	for s in bash zsh fish; do bin/snapctl completion $$s > bin/completion/snapctl.$$s; done
