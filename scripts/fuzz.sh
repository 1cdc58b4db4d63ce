#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose name fits for TIME (-fuzztime in go help testflag). What it finds stays in
# testdata/fuzz of the package, where it is a test from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp) status=0
trap 'rm -f "$log"' EXIT
targets=$(grep -roE --include='*_test.go' "^func Fuzz[A-Za-z0-9_]+" . | sort | grep -E "${2:-.}") || { echo "fuzz: no target fits $2" >&2 && exit 1; }
while IFS=: read -r file target; do
	# Before Go 1.27 the end of the time is now and then a failure, whose whole text is that of the context
	# (https://go.dev/issue/75804). What a target finds has more text, and so has whatever else goes wrong.
	go test -vet=off -run '^$' -fuzz "^${target#func }\$" -fuzztime "$1" -fuzzminimizetime 1s "./${file%/*}" >"$log" 2>&1 ||
		grep -Pzq -- "--- FAIL: ${target#func } \([0-9.]+s\)\n    context deadline exceeded\nFAIL\n" "$log" || { cat "$log" && status=1; }
	echo "fuzz: $file ${target#func }: $(grep -o 'execs: .*' "$log" | tail -n 1)"
done <<<"$targets"
exit $status
