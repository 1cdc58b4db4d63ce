#!/usr/bin/env bash
# test-all.sh [FLAG...]: all tests, what may race, the mutants that a change may have let go, and the fuzz targets.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .tests && mkdir .tests
status=0 took=
step() { # NAME COMMAND...: a failure of one is no reason not to see the others
	local began=$SECONDS
	"${@:2}" || status=1
	took+="$1 took $((SECONDS - began)) s"$'\n'
}
mutants() { go run ./scripts/mutants | tee .tests/mutants.md; }

# Packages whose tests disturb others, or are disturbed by them, import test/alone: they come one at a time.
alone=$(go list -f '{{range .TestImports}}{{if eq . "github.com/leaderrun/leaderrun/test/alone"}}{{$.ImportPath}}{{end}}{{end}}' ./...)
# What shares memory between goroutines that must not race. What takes long in it has been tried without the race detector.
racing="./runner ./backends ./test/suite ./internal/supervise/... ./internal/daemon/..."
drivers=$(go run ./scripts/mutants -drivers)
# shellcheck disable=SC2046,SC2086 # packages
{
	step 'the tests' scripts/test.sh all "$@" $(go list ./... | grep -vxF "$alone")
	step 'the tests that must be alone' scripts/test.sh alone -p 1 "$@" $alone
	export CGO_CFLAGS=-O0 # SQLite takes longer to be optimised than to be tested
	CGO_ENABLED=1 step 'the race detector' scripts/test.sh race -race -short $racing
	CGO_ENABLED=1 step 'the race detector on stores' scripts/test.sh drivers -race ./fence/sqlfence $drivers
}
step 'the mutants' mutants
step 'the fuzz targets' scripts/fuzz.sh 10s .
printf '%s' "$took"
exit $status
