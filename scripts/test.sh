#!/usr/bin/env bash
# test.sh NAME FLAG|PACKAGE...: go test, and then which tests were skipped and why. The events are left in .tests/NAME.json.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tests
status=0
go tool -modfile=tools/gotestsum.mod gotestsum --format-hide-empty-pkg --hide-summary=skipped --jsonfile ".tests/$1.json" \
	-- -vet=off -timeout 15m "${@:2}" || status=$?
go run ./scripts/tests skipped ".tests/$1.json"
exit $status
