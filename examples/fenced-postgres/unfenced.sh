#!/bin/sh
# Adds the new orders to the total: the way that loses an update when this run was overtaken.
set -eu
total=$(psql -qXAt -c "SELECT amount FROM totals WHERE name = 'orders'")
new=$(add-orders "$total")
leaderrun check >/dev/null # this run still leads, now
psql -qXAt -v ON_ERROR_STOP=1 -v new="$new" <<'SQL'
UPDATE totals SET amount = :new WHERE name = 'orders';
SQL
