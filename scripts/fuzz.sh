#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose name fits for TIME (see -fuzztime in go help testflag), and prints how many
# new inputs it tried. What it finds stays in testdata/fuzz of the package, where it is a test from then on. IDLE, a variable, has
# words that start the targets, as in IDLE='chrt --idle 0'; what is compiled for them, once for each package, does without. So does
# a target that has tried next to nothing: the inputs that it knows come first, and beside others they may take all of its time.
# fuzz.sh -over TARGET LOG: says by its exit code whether a log shows nothing but the end of the time.
# fuzz.sh -tried LOG: prints how many new inputs were tried, according to a log.
set -euo pipefail
cd "$(dirname "$0")/.."

# Before Go 1.27 the end of the time is now and then a failure, whose whole text is that of the context
# (https://go.dev/issue/75804). What a target finds has more text, and so has whatever else goes wrong. A worker that gets no
# processor does not even die of SIGKILL for a while, and Go says that it waits: that tells of the machine, not of the target.
over() {
	local said
	said=$(sed -E '/^(fuzz: elapsed: |waiting for fuzzing process to terminate\.\.\.$)/d; s/ \([0-9.]+s\)$//' "$2")
	[[ $said == "--- FAIL: $1"$'\n    context deadline exceeded\nFAIL' ]]
}

# known LOG, tried LOG: how many inputs were there before, and how many came to them. What a log calls execs is both.
known() { sed -nE 's/^fuzz: elapsed: .* [0-9]+\/([0-9]+) completed.*/\1/p' "$1" | tail -n 1; }
tried() {
	local all
	all=$(sed -nE 's/^fuzz: elapsed: .* execs: ([0-9]+) .*/\1/p' "$1" | tail -n 1)
	if [[ $all ]]; then echo $((all - $(known "$1"))); else echo 0; fi
}
case $1 in
-over)
	over "$2" "$3"
	exit
	;;
-tried)
	tried "$2"
	exit
	;;
esac
time=$1 pattern=${2:-.} few=100

status=0 targets=0
log=$(mktemp) programs=$(mktemp -d)
trap 'rm -rf "$log" "$programs"' EXIT
found=$(go env GOCACHE)/fuzz # where go test -fuzz keeps the inputs that it found interesting
read -ra idle <<<"${IDLE:-}"
# fuzz TIME [WORDS]: runs a target, started by words.
fuzz() {
	local time=$1
	shift
	(cd "$package" && "$@" "$program" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 1s \
		-test.fuzzcachedir "$found/$name" -test.parallel 1 -test.timeout 10m) >"$log" 2>&1 || over "$target" "$log"
}

compiled=
while IFS=: read -r file target; do
	targets=$((targets + 1))
	package=$(dirname "$file") program=$programs/fuzz.test
	if [[ $package != "$compiled" ]]; then
		rm -f "$program"
		CGO_ENABLED=0 go test -c -vet=off -fuzz . -o "$program" "./$package" >"$log" 2>&1 || true
		compiled=$package name=$(go list "./$package")
	fi
	if [[ -x $program ]] && fuzz "$time" "${idle[@]}" &&
		{ [[ $(tried "$log") -ge $few ]] || fuzz "$(($(known "$log") + 2 * few))x"; } && [[ $(tried "$log") -ge $few ]]; then
		echo "fuzz: $package $target: $(tried "$log") inputs"
	else
		echo "fuzz: $package $target failed:"
		cat "$log"
		status=1
	fi
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/^\.\///; s/func //' | sort | grep -E "$pattern")
[[ $targets -gt 0 ]] || { echo "fuzz: no target fits $pattern" >&2 && status=1; }
exit $status
