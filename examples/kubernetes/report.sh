#!/bin/sh
# Report stands in for the command of which each tick is to run once: put yours in its place.
echo "the report of $LEADERRUN_TICK: $*"
