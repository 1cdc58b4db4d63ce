#!/usr/bin/env bash
# lint.sh DIR [fmt]: builds the linters into DIR and runs them, or formats the code.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$1

tool() { # MODULE PACKAGE
	scripts/retry.sh go -C "tools/$1" build -buildvcs=false -o "$tools/" "$2"
}

tool lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
if [[ ${2:-} == fmt ]]; then
	exec "$tools/golangci-lint" fmt
fi

status=0
"$tools/golangci-lint" run --allow-parallel-runners ./... || status=1
(cd tools/testsum && "$tools/golangci-lint" run --allow-parallel-runners --no-config -D errcheck ./...) || status=1

tool workflows github.com/rhysd/actionlint/cmd/actionlint
"$tools/actionlint" || status=1 # of .github/workflows; of their shell scripts where there is a shellcheck

# It fails without a difference when a module could not be had.
diff=$(mktemp)
trap 'rm -f "$diff"' EXIT
scripts/retry.sh bash -c 'go mod tidy -diff >"$0" || [[ -s $0 ]]' "$diff" || status=1
if [[ -s $diff ]]; then
	echo "go.mod is not tidy: run go mod tidy"
	cat "$diff"
	status=1
fi

# The systems that leaderrun is built for, tests included.
for os in darwin freebsd; do
	GOOS=$os CGO_ENABLED=0 go vet ./... || status=1
done

tool vuln golang.org/x/vuln/cmd/govulncheck
report=$("$tools/govulncheck" ./... 2>&1) && vuln=0 || vuln=$?
case $vuln:$report in
0:*) ;;
1:*"fetching vulnerabilities"*) echo "skipped: govulncheck: its database cannot be reached" ;;
*) echo "$report" && status=1 ;;
esac
exit $status
