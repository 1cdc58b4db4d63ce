#!/usr/bin/env bash
# backup.sh FILE: dumps the database into FILE, which all hosts share. Every host may call it at once.
set -euo pipefail

# The whole pipeline is the command. Without pipefail a dump that fails half-way would look well; without a file
# of its own for each run, a dump that fails would have overwritten the last good one. Before it replaces that one,
# it asks whether this run still leads.
exec leaderrun run backup -- bash -o pipefail -c '
	new=$1.$LEADERRUN_TOKEN
	trap "rm -f \"\$new\"" EXIT
	dump-database | gzip >"$new" && leaderrun check >/dev/null && mv "$new" "$1"
' backup "$1"
