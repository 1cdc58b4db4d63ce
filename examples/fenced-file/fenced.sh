#!/bin/sh
# Adds the new orders to the total. Once the fence is raised, no earlier run can change the file any more; and once a
# later run has raised it, neither can this one.
set -eu
leaderrun fence file --raise "$TOTAL" # before it is read
total=$(cat "$TOTAL")
new=$(add-orders "$total")
leaderrun check >/dev/null # not needed for safety: there is no use in going on after a loss
printf '%s\n' "$new" | leaderrun fence file "$TOTAL"
