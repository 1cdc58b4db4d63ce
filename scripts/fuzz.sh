#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose name fits for TIME (see -fuzztime in go help testflag), and prints how many
# inputs it tried. What it finds stays in testdata/fuzz of the package, where it is a test from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 pattern=${2:-.}

status=0 targets=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while IFS=: read -r file target; do
	targets=$((targets + 1))
	if CGO_ENABLED=0 go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s -parallel 1 "./$(dirname "$file")" >"$log" 2>&1; then
		echo "fuzz: $(dirname "$file") $target: $(grep -oE 'execs: [0-9]+' "$log" | tail -n 1)"
	else
		echo "fuzz: $(dirname "$file") $target failed:"
		cat "$log"
		status=1
	fi
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/^\.\///; s/func //' | sort | grep -E "$pattern")
[[ $targets -gt 0 ]] || { echo "fuzz: no target fits $pattern" >&2 && status=1; }
exit $status
