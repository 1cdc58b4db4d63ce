#!/usr/bin/env bash
# retry.sh COMMAND [ARG…]: runs COMMAND up to three times, for what a network may fail once.
set -euo pipefail

for delay in 3 10; do
	"$@" && exit 0
	echo "retry.sh: $1 failed; again in $delay s" >&2
	sleep "$delay"
done
exec "$@"
