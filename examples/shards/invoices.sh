#!/bin/sh
# Sends the invoices of one night, divided among all hosts. In the crontab of every host:
#
#   0 2 * * * invoices.sh
#
# Each host sends those of the shards that no other one has: 16 of them, two at a time. A host that dies loses only its two,
# which another host sends again.
exec leaderrun run --schedule '0 2 * * *' --on-lost rerun --shards 16 --parallel 2 invoices -- sh -c '
	customers=$(list-customers --modulo "$LEADERRUN_SHARDS" --remainder "$LEADERRUN_SHARD") || exit
	for customer in $customers; do
		# A shard that is run again begins from the start. What it has sent already is known by the number of the invoice.
		send-invoice --number "$LEADERRUN_TICK_UNIX-$customer" "$customer" || exit
	done'
