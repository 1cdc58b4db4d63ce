package main

var (
	cronTests    = []string{"./internal/daemon", "-short", "-run", "Shard|Divided|Tick|Parallel|Overlap|CatchUp|Drain|Reload"}
	historyParts = []string{"./test/history", "-short", "-run", "TestModel$"}
)

// cronMutants break the rules of a daemon's jobs that are divided.
var cronMutants = []mutant{
	{"cron: who was too slow to start a tick claims it again at once", "internal/daemon/due.go", "case result.Ending == runner.NotStarted && !a.sleep(runner.OthersFirst):", "case false:", []string{"./internal/daemon", "-run", "TestAStartThatIsTooLate"}},
	{"shards: who was too slow to start one claims it again at once", "internal/shards/tick.go", "if r.Ending == runner.NotStarted {", "if false {", []string{"./internal/shards", "-run", "TestAHostThatCannot"}},
	{"cron: a tick is seen to when its first shard is", "internal/daemon/shards.go", "case o.Tick < tick || o.State == backends.Open:", "case o.State == backends.Open:", cronTests},
	{"cron: a tick that others work on is caught up", "internal/daemon/shards.go", "if whole.Lease != nil && whole.Record.Tick.State == backends.Open {", "if false {", cronTests},
	{"cron: a tick that an earlier one was in the way of is caught up", "internal/daemon/shards.go", "if outcome.Busy != nil && a.def.Overlap == jobfile.Forbid {", "if false {", cronTests},
	{"cron: all shards at a time", "internal/daemon/shards.go", "Parallel: a.def.Parallel,", "Parallel: a.def.Shards,", cronTests},
	{"cron: the runs of an earlier tick's shards are not stopped", "internal/daemon/due.go", "case j.Overlap == jobfile.Replace:", "case j.Overlap == jobfile.Replace && j.Shards == 0:", cronTests},
	{"cron: a store that does not answer about shards is not noted", "internal/daemon/shards.go", "return s.d.ask(ctx, s.a, s.d.Store.Look, job)", "return s.d.Store.Look(ctx, job)", cronTests},
	{"cron: a fault in one divided job ends the daemon", "internal/daemon/shards.go", "if p := recover(); p != nil {", "if p := any(nil); p != nil && err == nil {", cronTests},
	{"history: parts are not compared", "test/history/tick_test.go", "return q.parts != l.tick.parts &&", "return false &&", historyParts},
}
