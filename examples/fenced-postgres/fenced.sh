#!/bin/sh
# Adds the new orders to the total. The fence is the first statement of the transaction that writes it, and of one before
# the total is read.
set -eu
sql() { psql -qXAt -v ON_ERROR_STOP=1 -v token="$LEADERRUN_TOKEN" "$@"; }

sql -o /dev/null <<'SQL'
SELECT leaderrun_fence('orders', :token);
SQL
total=$(sql -c "SELECT amount FROM totals WHERE name = 'orders'")
new=$(add-orders "$total")
leaderrun check >/dev/null # not needed for safety: there is no use in going on after a loss
sql -o /dev/null -v new="$new" <<'SQL'
BEGIN;
SELECT leaderrun_fence('orders', :token);
UPDATE totals SET amount = :new WHERE name = 'orders';
COMMIT;
SQL
