# make test answers in minutes and needs Go and nothing else; what it cannot have, it skips and names at the end. make test-all is
# everything there is. CI names in LEADERRUN_TEST_REQUIRE what must not be skipped.

export PATH := $(PATH):/usr/sbin:/sbin
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/leaderrun/tools

.PHONY: build release test test-all fuzz model bed servers lint fmt clean

build:
	CGO_ENABLED=0 go build -trimpath -tags urfave_cli_no_docs -ldflags '-s -w' -o leaderrun .

# What a release consists of, in dist/: make release VERSION=v0.1.0, or SNAPSHOT=1 of the tree as it is. The same commit makes the
# same bytes. PLATFORMS=linux/amd64 makes it for fewer.
release:
	@go -C tools/release run . -root '$(CURDIR)' -version '$(if $(SNAPSHOT),snapshot,$(VERSION))' -platforms '$(PLATFORMS)'

# One package: make test PKG=./runner  One test: make test ARGS='-run TestName -count 5'
# What go vet finds, make lint does.
PKG :=
ARGS :=
export ARGS
test:
	@scripts/test.sh quick $(TOOLS) '$(PKG)'

test-all:
	@scripts/test.sh all $(TOOLS) '$(PKG)'

# Each fuzz target, or those that fit, for a while: make fuzz FUZZTIME=1h FUZZ=Record
FUZZTIME := 10s
FUZZ := .
fuzz:
	@scripts/fuzz.sh $(FUZZTIME) '$(FUZZ)'

# Every order in which steps and faults can meet, in small worlds, with the real machine and engine, see runner/every_cases_test.go. Two
# at a time. make test-all has one fault less.
#   make model VARIANTS=redis
model:
	go test -count 1 -timeout 0 -parallel 2 -v -run 'TestEveryOrder/$(VARIANTS)' ./runner -all

# Hosts, network and stores break at random for the whole DURATION, on all stores at once; with EACH one fault after the
# other, those whose name fits, with the peers beside leaderrun. See docs/reliability.md.
#   make bed DURATION=1h SEED=7 STORE=etcd3 CAST=divided FAULT='wrapper killed' EACH=. REPORT=folder
DURATION := 10m
bed: servers
	go test -count 1 -timeout 0 -v -run '$(if $(EACH),TestFault,TestBed)' ./test/bed -duration $(DURATION) \
		-seed $(or $(SEED),0) -store '$(STORE)' -cast '$(CAST)' -fault '$(FAULT)' -each '$(EACH)' -report '$(if $(REPORT),$(abspath $(REPORT)))'

servers:
	@scripts/servers.sh

lint:
	@scripts/lint.sh $(TOOLS)

fmt:
	@scripts/lint.sh $(TOOLS) fmt

clean:
	rm -rf leaderrun dist $(TOOLS)
