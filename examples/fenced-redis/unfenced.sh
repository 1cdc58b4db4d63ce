#!/bin/sh
# Adds the new orders to the total: the way that loses an update when this run was overtaken.
set -eu
total=$(redis-cli -u "$SHOP" get total)
new=$(add-orders "$total")
leaderrun check >/dev/null # this run still leads, now
redis-cli -u "$SHOP" set total "$new" >/dev/null
