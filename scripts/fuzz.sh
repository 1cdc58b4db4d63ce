#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose name fits for TIME (see -fuzztime in go help testflag), and prints how many
# inputs it tried. What it finds stays in testdata/fuzz of the package, where it is a test from then on.
# fuzz.sh -over TARGET LOG: says by its exit code whether a log shows nothing but the end of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

# Before Go 1.27 the end of the time is now and then a failure, whose whole text is that of the context
# (https://go.dev/issue/75804). What a target finds has more text, and so has whatever else goes wrong.
over() {
	local said
	said=$(sed -E '/^fuzz: elapsed: /d; s/ \([0-9.]+s\)$//; s/^FAIL\t\S+\t[0-9.]+s$/FAIL/' "$2")
	[[ $said == "--- FAIL: $1"$'\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL' ]]
}
if [[ $1 == -over ]]; then
	over "$2" "$3"
	exit
fi
time=$1 pattern=${2:-.}

status=0 targets=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while IFS=: read -r file target; do
	targets=$((targets + 1))
	if CGO_ENABLED=0 go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s -parallel 1 "./$(dirname "$file")" >"$log" 2>&1 ||
		over "$target" "$log"; then
		echo "fuzz: $(dirname "$file") $target: $(grep -oE 'execs: [0-9]+' "$log" | tail -n 1)"
	else
		echo "fuzz: $(dirname "$file") $target failed:"
		cat "$log"
		status=1
	fi
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/^\.\///; s/func //' | sort | grep -E "$pattern")
[[ $targets -gt 0 ]] || { echo "fuzz: no target fits $pattern" >&2 && status=1; }
exit $status
