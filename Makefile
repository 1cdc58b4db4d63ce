# See CONTRIBUTING.md.
export PATH := $(PATH):/usr/sbin:/sbin
# The program is built without cgo, so the tests are too: nothing is compiled twice. The race detector needs it, and SQLite.
export CGO_ENABLED := 0

.PHONY: build release test test-all fuzz mutants model bed servers lint fmt clean

build:
	go build -trimpath -tags urfave_cli_no_docs -ldflags '-s -w' -o leaderrun .

# What a release consists of, in dist/: make release VERSION=v0.1.0, or SNAPSHOT=1 of the tree as it is. The same commit makes the
# same bytes. PLATFORMS=linux/amd64 makes it for fewer.
unexport VERSION PLATFORMS
release: export NUMBER := $(if $(SNAPSHOT),snapshot,$(value VERSION))
release: export FOR := $(value PLATFORMS)
release: # a tag may be called whatever git lets pass: no text of it is one of the command
	@go -C tools/release run . -root '$(CURDIR)' -version "$$NUMBER" -platforms "$$FOR"

# It needs Go and nothing else, skips what it cannot have, and names that at the end. What go vet finds, make lint does.
#   make test PKG=./runner ARGS='-run TestName -count 5'
test:
	@scripts/test.sh quick -short $(ARGS) $(or $(PKG),./...)

# Everything, with what it needs installed or built. With a PKG, all of its tests.
test-all: servers
	@scripts/$(if $(PKG),test.sh some,test-all.sh) $(ARGS) $(PKG)

# Each fuzz target, or those that fit, for a while: make fuzz FUZZTIME=1h FUZZ=Record
fuzz:
	@scripts/fuzz.sh $(or $(FUZZTIME),10s) '$(or $(FUZZ),.)'

# All mutants, and all stores under the race detector: if no mutant survives and nothing races, the commit is the one that later
# ones are compared with.
mutants: servers
	@git diff --quiet HEAD || { echo "commit first: what is tried here is a commit" && false; }
	BASE=none go run ./scripts/mutants -record
	CGO_ENABLED=1 scripts/test.sh drivers -race ./backends/...
	git rev-parse HEAD >scripts/mutants/base

# Every order in which steps and faults can meet, in small worlds, with the real machine and engine, see runner/every_cases_test.go. Two
# at a time. make test-all has one fault less.
#   make model VARIANTS=redis
model:
	go test -count 1 -timeout 0 -parallel 2 -v -run 'TestEveryOrder/$(VARIANTS)' ./runner -all

# Hosts, network and stores break at random for the whole DURATION, on all stores at once; with EACH one fault after the
# other, those whose name fits, with the peers beside leaderrun. See docs/design/reliability.md.
#   make bed DURATION=1h SEED=7 STORE=etcd3 CAST=divided FAULT='wrapper killed' EACH=. REPORT=folder
bed: servers
	go test -count 1 -timeout 0 -v -run '$(if $(EACH),TestFault,TestBed)' ./test/bed -duration $(or $(DURATION),10m) \
		-seed $(or $(SEED),0) -store '$(STORE)' -cast '$(CAST)' -fault '$(FAULT)' -each '$(EACH)' -report '$(if $(REPORT),$(abspath $(REPORT)))'

# What the tests start: Debian's packages, as root, and what is built from source. make servers SERVERS=debian: the packages alone.
SERVERS := debian etcd consul kubernetes s3
servers:
	@scripts/servers.sh $(SERVERS)

lint fmt:
	@scripts/lint.sh $@

clean:
	rm -rf leaderrun dist .tests
