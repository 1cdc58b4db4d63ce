#!/usr/bin/env bash
# lint.sh lint|fmt: runs the linters, or formats the code. They are built into a cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/tools status=0
for module in lint workflows vuln; do
	go -C "tools/$module" build -buildvcs=false -o "$tools/" tool
	[[ $1 == lint ]] || exec "$tools/golangci-lint" fmt
done

"$tools/golangci-lint" run --allow-parallel-runners ./... || status=1
"$tools/actionlint" || status=1 # of .github/workflows; of their shell scripts where there is a shellcheck
go mod tidy -diff || status=1
for os in darwin freebsd; do # leaderrun is built for them, too
	GOOS=$os go vet ./... || status=1
done
report=$("$tools/govulncheck" ./... 2>&1) || case $report in
*"fetching vulnerabilities"*) echo "skipped: govulncheck: its database cannot be reached" ;;
*) echo "$report" && status=1 ;;
esac
exit $status
