package cli

// jobFilePage is the help about the file of cron. docs/cron.md has more.
func jobFilePage() string {
	return `A job file of ` + "`leaderrun cron`" + ` is YAML if its name ends in .yaml or .yml, and a crontab otherwise.

  timezone: Europe/Berlin            # of all schedules; else the host's
  defaults: {ttl: 15s, prefix: ""}   # any key below but schedule, every, command, shell and shards
  jobs:
    nightly-report:
      schedule: "0 2 * * *"
      command: [/usr/local/bin/report, --full]

Keys of a job:
  schedule         five fields as in a crontab, @daily and the like; a list is a union
  every            a tick every so often, at the same instants on every host
  timezone         of its schedule
  command          [PROGRAM, ARG]: no shell looks at it
  shell            instead: a line for sh -c
  env              {NAME: value}
  dir              where the command starts
  ttl, grace, kill_after, timeout, start_deadline, backend_wait, on_lost, max_attempts, retries, retry_delay
                   as the options of ` + "`leaderrun run`" + `; backend_wait is 1m
  overlap          what becomes of a tick that comes while an earlier run goes on: forbid (it is missed, the
                   default), wait (it runs afterwards), replace (the earlier run is stopped)
  shards           into how many parts the work of each tick is divided: all hosts work through them, and each runs the
                   command with LEADERRUN_SHARD (from 0) and LEADERRUN_SHARDS; see ` + "`leaderrun help run`" + `
  parallel         how many of them one host runs at a time (default: 1)
  catch_up         how many of the ticks that nobody ran are made up for, the latest ones (default: 0)
  jitter           a run starts up to that much later, to spread load (default: 0)
  prefix           a text before every line of output

In a crontab a comment "# job: NAME" right above a line names its job; CRON_TZ=ZONE is the zone of the lines below it.
`
}
