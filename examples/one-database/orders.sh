#!/bin/sh
# Adds the new orders to the total, in the database that also holds the lease of this run. Fence, total and the token that
# wrote it are one transaction.
set -eu
new=$(add-orders 0)
leaderrun check >/dev/null # not needed for safety: there is no use in going on after a loss
psql -X -q -v ON_ERROR_STOP=1 -v ON_ERROR_ROLLBACK=off -v token="$LEADERRUN_TOKEN" -v new="$new" <<'SQL'
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = '60s';
SELECT leaderrun_fence('orders', :'token') \gset
UPDATE totals SET amount = amount + :new, token = :token WHERE name = 'orders';
COMMIT;
SQL
