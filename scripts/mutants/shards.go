package main

// shardTests work through ticks with hosts that come and go.
var shardTests = []string{"./internal/shards", "-short"}

// shardsMutants break how work is divided.
var shardsMutants = []mutant{
	{"a tick is divided in two ways", "backends/decide.go", "case d.c.Tick == last.Tick && d.c.Parts != last.Parts:", "case false:", decisionTests},
	{"a key is divided in two ways", "backends/decide.go", "if o.Parts != d.c.Parts {", "if false {", decisionTests},
	{"an unfinished tick is run with another number of parts", "backends/decide.go", "if d.c.Parts != last.Parts {", "if false {", decisionTests},
	{"the record does not say how many parts there are", "backends/decide.go", "r.Job, r.Holder, r.Parts = d.c.Job, d.c.Holder, d.c.Parts", "r.Job, r.Holder = d.c.Job, d.c.Holder", decisionTests},
	{"shards: others are claimed before shard 0 is recorded", "internal/shards/tick.go", "case w.begin(ctx):", "case true:", shardTests},
	{"shards: the recorded number of shards is not heeded", "internal/shards/tick.go", "\t\tw.trigger.Parts = n\n\t\tw.parts = make([]part, n)\n", "", shardTests},
	{"shards: the others are not asked where shard 0 says nothing", "internal/shards/tick.go", "if err == nil && mayBeGone(&s.Record, w.trigger) {", "if false {", shardTests},
	{"shards: who has not heard of shard 0 takes it for lost", "internal/shards/look.go", "if *s = again; err", "if _ = again; err", shardTests},
	{"shards: what shard 0 was begun for is lost, and runs again", "internal/shards/look.go", "if k == 0 && w.trigger.OnLost != backends.Rerun && wasLost(s, w.trigger) {", "if false {", shardTests},
	{"shards: a lost tick of shard 0 is run before the next one", "internal/shards/tick.go", "\tif lost {\n\t\tsub.lose()\n\t}\n", "", shardTests},
	{"shards: a tick is begun after a later one", "internal/shards/tick.go", "s.Record.Tick.Tick != w.trigger.Tick || o.State", "o.State", shardTests},
	{"shards: a tick does not wait for an earlier one", "internal/shards/tick.go", "case w.inTheWay(ctx, s, lost):", "case false:", shardTests},
	{"shards: who waits goes when others run what is left", "internal/shards/tick.go", "if w.running == 0 && (left <= 0", "if w.running == 0 && (left >= 0", shardTests},
	{"shards: more are run at a time than were asked for", "internal/shards/tick.go", "w.running < max(w.Parallel, 1) {", "w.running < 99 {", shardTests},
	{"shards: what was broken is run here again", "internal/shards/outcome.go", "p.standing = left\n\t\t}", "p.standing = unknown\n\t\t}", shardTests},
	{"shards: what is said of an earlier tick is taken for this one", "internal/shards/outcome.go", "if run.earlier && f.Verdict != backends.Divided {", "if false {", shardTests},
	{"shards: who cannot finish an earlier tick says that others do", "internal/shards/tick.go", "w.stop, w.stopShard = out.Stop, out.StopShard", "w.busy = &backends.Refusal{Verdict: backends.Held}", shardTests},
	{"shards: a shard of an earlier tick that was broken is run here again", "internal/shards/tick.go", "case out.Running == 0 && out.Bad != nil:", "case false:", shardTests},
	{"shards: an earlier tick that gets too late is in the way", "internal/shards/tick.go", "late = isLate(out.Stop)", "late = false", shardTests},
	{"shards: what was done as a part of another number is done", "internal/shards/look.go", "known = known && o.Parts == t.Parts", "_ = o.Parts == t.Parts", shardTests},
	{"break: what is forgotten of a tick that others work on is run again", "internal/cli/break_forget.go", "if err := b.nobodyIsAtWork(names, seen, of.Record.LastTick().Tick); err != nil {", "if err := error(nil); err != nil {", []string{"./internal/cli", "-run", "TestScripts/shards$"}},
	{"shards: a run that was over before it heard of a break lets others begin", "internal/shards/outcome.go", "\t\tw.heedLate(f)\n", "", shardTests},
	{"a request to stop that the end of a run finds is told to nobody", "backends/engine.go", "\t\tcache.askedAtEnd(asked)\n", "", shardTests},
	{"break: waits again for shards that were lost", "internal/cli/break.go", "|| isOver {", "|| isOver && false {", []string{"./internal/cli", "-run", "TestScripts/shards$"}},
	{"break: a host between two shards is not seen", "internal/cli/break.go", "const betweenShards = time.Second", "const betweenShards = 0", []string{"./internal/cli", "-run", "TestBreakLooksTwice"}},
	{"break: one look at many shards is enough", "internal/cli/break.go", "if works || since.IsZero() {", "if works {", []string{"./internal/cli", "-run", "TestBreakLooksTwice"}},
	{"a divided tick that is too late keeps the next one from being run", "internal/daemon/shards.go", "tooLate := outcome.Stop != nil", "tooLate := false && outcome.Stop != nil", []string{"./internal/daemon", "-run", "Divided"}},
	{"a shard's token is no floor for its next run", "internal/cli/crew.go", "request.Floor = w.floors[name]", "request.Floor = 0", []string{"./internal/cli", "-run", "TestCrew"}},
	{"a tick that is divided in another way elsewhere is in good hands", "internal/cli/shards.go", " || o.IsOver() || o.Differs()):", " || o.IsOver()):", []string{"./internal/cli", "-run", "TestCrew"}},
	{"shards: what fails is told as done", "internal/shards/outcome.go", "p.standing == over && p.state == backends.Done:", "p.standing == over:", shardTests},
}
