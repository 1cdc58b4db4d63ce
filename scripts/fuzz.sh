#!/usr/bin/env bash
# fuzz.sh TIME PATTERN: runs each fuzz target whose name fits for TIME (-fuzztime in go help testflag), two at once. What it finds stays
# in testdata/fuzz of the package, where it is a test from then on. fuzz.sh -one TIME FILE:TARGET runs one.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $1 != -one ]]; then
	grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //' | grep -E "$2" | xargs -r -P 2 -n 1 scripts/fuzz.sh -one "$1"
	exit
fi
target=${3#*:} log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Before Go 1.27 the end of the time is now and then a failure, whose whole text is that of the context
# (https://go.dev/issue/75804). What a target finds has more text, and so has whatever else goes wrong.
go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$2" -fuzzminimizetime 1s -parallel 1 "${3%/*}" >"$log" 2>&1 ||
	grep -Pzq -- "--- FAIL: $target \([0-9.]+s\)\n    context deadline exceeded\nFAIL\n" "$log" || { cat "$log" && exit 1; }
echo "fuzz: ${3%:*} $target: $(grep -o 'execs: .*' "$log" | tail -n 1)"
