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
	{"shards: a tick is begun after a later one", "internal/shards/tick.go", "s.Record.Tick.Tick != w.trigger.Tick || o.State", "o.State", shardTests},
	{"shards: a tick does not wait for an earlier one", "internal/shards/tick.go", "case w.inTheWay(ctx, s):", "case false:", shardTests},
	{"shards: who waits goes when others run what is left", "internal/shards/tick.go", "if w.running == 0 && (left <= 0", "if w.running == 0 && (left >= 0", shardTests},
	{"shards: more are run at a time than were asked for", "internal/shards/tick.go", "w.running < max(w.Parallel, 1) {", "w.running < 99 {", shardTests},
	{"shards: what was broken is run here again", "internal/shards/outcome.go", "p.standing = left\n\t\t}", "p.standing = unknown\n\t\t}", shardTests},
	{"shards: what fails is told as done", "internal/shards/outcome.go", "p.standing == over && p.state == backends.Done:", "p.standing == over:", shardTests},
}
