#!/bin/sh
# Runs on every host that gets a new release, before it starts: the first one migrates the database, the others
# wait for that, and find nothing to do. It exits with 0 if the release may start.
leaderrun run --wait "${MIGRATE_WAIT:-5m}" migrate-shop -- shop-migrate up
code=$?

case $code in
0) ;;
69) echo "migrate: nobody can say whether another host migrates right now; nothing was changed" >&2 ;;
75) echo "migrate: it was stopped half-way, because the lease was lost; look at the database first" >&2 ;;
76) echo "migrate: another host is still at it (leaderrun status migrate-shop); nothing was changed" >&2 ;;
64 | 70 | 77 | 78 | 126 | 127) echo "migrate: leaderrun could not run it, see above" >&2 ;;
*) echo "migrate: it failed with code $code" >&2 ;;
esac
exit "$code"
