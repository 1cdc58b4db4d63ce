#!/usr/bin/env bash
# lint.sh lint|fmt: runs the linters, or formats the code. They are built into a cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/tools
tool() { scripts/retry.sh go -C "tools/$1" build -buildvcs=false -o "$tools/" "$2"; } # MODULE PACKAGE

tool lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
[[ $1 == lint ]] || exec "$tools/golangci-lint" fmt

status=0
"$tools/golangci-lint" run --allow-parallel-runners ./... || status=1

tool workflows github.com/rhysd/actionlint/cmd/actionlint
"$tools/actionlint" || status=1 # of .github/workflows; of their shell scripts where there is a shellcheck

scripts/retry.sh go mod download # what comes fails without a difference when a module cannot be had
go mod tidy -diff || status=1

# The systems that leaderrun is built for, tests included.
for os in darwin freebsd; do
	GOOS=$os go vet ./... || status=1
done

tool vuln golang.org/x/vuln/cmd/govulncheck
report=$("$tools/govulncheck" ./... 2>&1) || case $report in
*"fetching vulnerabilities"*) echo "skipped: govulncheck: its database cannot be reached" ;;
*) echo "$report" && status=1 ;;
esac
exit $status
