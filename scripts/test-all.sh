#!/usr/bin/env bash
# test-all.sh [FLAG...]: all tests, what may race, the mutants that a change may have let go, and the fuzz targets. The same commit
# has the same of all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0 took=
step() { # NAME COMMAND...: a failure of one is no reason not to see the others
	local began=$SECONDS
	"${@:2}" || status=1
	took+="$1 took $((SECONDS - began)) s"$'\n'
}
rm -rf .tests && mkdir .tests
mutants() { go run ./scripts/mutants | tee .tests/mutants.md; }
# What shares memory between goroutines that must not race; elsewhere the race detector only makes the tests slow. What takes long has
# been tried without it.
racing() {
	local drivers cgo=(env CGO_ENABLED=1 CGO_CFLAGS=-O0) # SQLite takes longer to be optimised than to be tested
	"${cgo[@]}" scripts/test.sh race -race -short ./runner ./backends ./test/suite ./internal/supervise/... ./internal/daemon/... || status=1
	drivers=$(go run ./scripts/mutants -drivers) && "${cgo[@]}" scripts/test.sh drivers -race ./fence/sqlfence $drivers
}
# Packages whose tests disturb others, or are disturbed by them, import test/alone: they come one at a time.
alone=$(go list -f '{{range .TestImports}}{{if eq . "github.com/leaderrun/leaderrun/test/alone"}}{{$.ImportPath}}{{end}}{{end}}' ./...)
# shellcheck disable=SC2046,SC2086 # packages
step 'the tests' scripts/test.sh all "$@" $(go list ./... | grep -vxF "$alone")
# shellcheck disable=SC2086
step 'the tests that must be alone' scripts/test.sh alone -p 1 "$@" $alone
step 'the race detector' racing
step 'the mutants' mutants
step 'the fuzz targets' scripts/fuzz.sh 10s
printf '%s' "$took"
exit $status
