#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose name fits for TIME (-fuzztime in go help testflag). What it finds stays in
# testdata/fuzz of the package, where it is a test from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=1
while IFS=: read -r file target; do
	[[ $status != 1 || ${tried:-} ]] || status=0
	tried=yes
	# Before Go 1.27 the end of the time is now and then a failure, whose whole text is that of the context
	# (https://go.dev/issue/75804). What a target finds has more text, and so has whatever else goes wrong.
	if go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 1s "./$(dirname "$file")" >"$log" 2>&1 ||
		grep -Pzq -- "--- FAIL: $target \([0-9.]+s\)\n    context deadline exceeded\nFAIL\n" "$log"; then
		echo "fuzz: $target: $(grep '^fuzz: elapsed' "$log" | tail -n 1 | grep -o 'execs: .*')"
	else
		echo "fuzz: $file $target failed:" && cat "$log"
		status=1
	fi
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //' | sort | grep -E "${2:-.}")
[[ ${tried:-} ]] || echo "fuzz: no target fits ${2:-.}" >&2
exit $status
