# make test needs Go and nothing else; what it cannot have, it skips and names at the end.
# CI names in LEADERRUN_TEST_REQUIRE what must not be skipped.

export PATH := $(PATH):/usr/sbin:/sbin
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/leaderrun/tools
# The race detector needs cgo, which Go turns off where there is no C compiler.
RACE = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

.PHONY: build test model torture servers lint fmt clean

build:
	CGO_ENABLED=0 go build -trimpath -tags urfave_cli_no_docs -o leaderrun .

# One package: make test PKG=./runner  One test: make test ARGS='-run TestName -count 5'
# The bed and the histories first and alone: beside other tests they would show how busy this machine is. What go vet finds, make
# lint does.
PKG :=
test: servers
	@scripts/retry.sh go mod download
	@go -C tools/testsum test .
	@go -C tools/testsum build -buildvcs=false -o $(TOOLS)/testsum .
	@packages='$(PKG)'; [ "$$packages" ] || { all=$$(go list ./...) && \
	packages="./internal/torture -- ./internal/history -- $$(echo "$$all" | grep -Ev '/internal/(torture|history)$$')"; } || exit; \
	$(TOOLS)/testsum $(RACE) -vet=off -timeout 15m $(ARGS) -- $$packages

# Every order in which steps and faults can meet, in small worlds: see internal/model/doc.go. Two variants at a time.
#   make model VARIANTS=redis
model:
	go test -count 1 -timeout 0 -parallel 2 -v -run 'TestVariants/$(VARIANTS)' ./internal/model -all

# Hosts, network and stores break at random for the whole DURATION, on all stores at once; with EACH one fault after the
# other, those whose name fits, with the peers beside leaderrun. See docs/reliability.md.
#   make torture DURATION=1h SEED=7 STORE=etcd3 FAULT='wrapper killed' EACH=. REPORT=folder
DURATION := 10m
torture: servers
	go test -count 1 -timeout 0 -v -run '$(if $(EACH),TestFault,TestTorture)' ./internal/torture -duration $(DURATION) \
		-seed $(or $(SEED),0) -store '$(STORE)' -fault '$(FAULT)' -each '$(EACH)' -report '$(if $(REPORT),$(abspath $(REPORT)))'

servers:
	@scripts/servers.sh

lint:
	@scripts/lint.sh $(TOOLS)

fmt:
	@scripts/lint.sh $(TOOLS) fmt

clean:
	rm -rf leaderrun dist $(TOOLS)
