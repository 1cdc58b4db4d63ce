#!/bin/sh
# Adds the new orders to the total: the way that loses an update when this run was overtaken.
set -eu
total=$(curl -fsS "$SHOP/total")
new=$(add-orders "$total")
leaderrun check >/dev/null # this run still leads, now
curl -fsS -X PUT --data "$new" "$SHOP/total"
