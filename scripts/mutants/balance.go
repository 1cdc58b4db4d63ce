package main

var (
	fleetTests  = []string{"./internal/shards", "-short", "-run", "TestShare|TestFleets|TestGivingUp|TestAFlappingHost|TestAHost|TestAHundred|TestHosts|TestManyGaps|TestHalf|TestAFirst|TestAWorker|NumberOfShards|AtOnce"}
	memoryTests = []string{"./internal/shards", "-run", "TestRemember"}
)

// balanceMutants are about long-running workers that are divided among hosts.
var balanceMutants = []mutant{
	{"workers: a place that was not renewed in time stays", "internal/shards/members.go", "m.leave()\n\t\t\treturn nil\n\t\t}\n\t\twait", "m.lost()\n\t\t\treturn nil\n\t\t}\n\t\twait", []string{"./internal/shards", "-run", "TestAPlaceThat"}},
	{"workers: places are looked at without end", "internal/shards/members.go", "if len(seen) >= slots.Most {", "if false {", []string{"./internal/shards", "-run", "FullOfMembers"}},
	{"workers: a place after the last member counts as one", "internal/shards/rule.go", "if p.lease != nil {\n\t\t\tbreak", "if p.taken() {\n\t\t\tbreak", []string{"./internal/shards", "-run", "APlaceThat"}},
	{"workers: the hosts are counted once", "internal/shards/rule.go", "\tn := max(before, own+1)\n", "\tn := max(before, own+1)\n\tif before > 0 {\n\t\treturn n, nil\n\t}\n", fleetTests},
	{"workers: those in the last place are not missed", "internal/shards/rule.go", "for n > own+1 {", "for n > own+1 && false {", fleetTests},
	{"workers: the shares overlap", "internal/shards/rule.go", "(n - place + members - 1) / members", "(n + members - 1) / members", fleetTests},
	{"workers: two runs are ended at a time", "internal/shards/rule.go", "return 0, ending == 0", "return 0, true", fleetTests},
	{"workers: a shard counts as given up before it is dead", "internal/shards/balance.go", "\t\t\tending++\n", "", fleetTests},
	{"workers: a run is ended for whoever has just come", "internal/shards/members.go", "const settling = 2", "const settling = 0", fleetTests},
	{"workers: a host takes shards before it knows the others", "internal/shards/members.go", "m.counts, m.now.ready = nil, false", "m.counts, m.now.ready = nil, true", fleetTests},
	{"workers: a host takes shards at once", "internal/shards/rule.go", "if !s.ready {", "if false {", fleetTests},
	{"workers: a gap is left", "internal/shards/members.go", "moved := m.moveDown(ctx, n, below)", "moved := false", fleetTests},
	{"workers: gaps are filled one after the other", "internal/shards/rule.go", "return free[min(members-1-place, len(free)):] }", "if members-1 > place {\n\t\treturn nil\n\t}\n\treturn free\n}", fleetTests},
	{"workers: who is last next does not look", "internal/shards/members.go", "own >= m.reached-lookers", "own >= m.reached", fleetTests},
	{"workers: a first look that failed is not made again", "internal/shards/members.go", "first := m.now.members == 0", "first := false", fleetTests},
	{"workers: a look at a slow store begins anew", "internal/shards/members.go", "if m.seen, err = lookOn(ctx, m.store, m.job, m.seen); err", "if m.seen, err = lookOn(ctx, m.store, m.job, nil); err", fleetTests},
	{"workers: searches leave a slow store no room for renewals", "internal/shards/members.go", "fewLookers = 4", "fewLookers = lookers", fleetTests},
	{"workers: a store that grants nothing is asked all the time", "internal/shards/members.go", "sleep(ctx, min(r.Wait, m.ttl))", "_ = r", fleetTests},
	{"workers: nobody looks at shards of others", "internal/shards/balance.go", "wait := b.lookBeside(now)", "wait := never", fleetTests},
	{"workers: of shards in a row only the first is looked at", "internal/shards/beside.go", "next != whose {", "true {", fleetTests},
	{"workers: a host without a place looks at shards", "internal/shards/beside.go", "!b.member || b.position.settled == 0", "b.position.settled == 0", []string{"./internal/shards", "-run", "TestAHostWithoutAPlace"}},
	{"workers: a host without shards looks at none", "internal/shards/beside.go", "len(own) == 0 {", "false {", fleetTests},
	{"workers: a dead holder's shard is not freed", "internal/shards/beside.go", "case err == nil && isDead(s):", "case false:", fleetTests},
	{"workers: looks at shards of others leave a slow store no room for renewals", "internal/shards/beside.go", "b.TTL/30, rest)", "b.TTL/30, 0*rest)", []string{"./internal/shards", "-run", "TestLooksBeside"}},
	{"workers: the places of the dead are not freed", "internal/shards/members.go", "if p.dead && i != m.now.place", "if p.dead && false && i != m.now.place", []string{"./internal/shards", "-run", "TestHalfOf"}},
	{"workers: a shard that is free is freed", "internal/shards/memory.go", "s.Wait == 0 && !s.Record.Free()", "s.Wait == 0", []string{"./internal/shards", "-run", "TestAShardThatIsFree"}},
	{"workers: a death is noticed with the next look", "internal/shards/members.go", "min(jittered(m.ttl/3), m.untilEnd())", "jittered(m.ttl / 3)", fleetTests},
	{"workers: a shard is freed with the next look", "internal/shards/beside.go", "wait = min(wait, b.Store.untilEnd(slots.Name(b.Job, shard)))", "_ = shard", fleetTests},
	{"workers: shards of the dead are looked for with the next search", "internal/shards/balance.go", "search = min(search, b.lateAt.Sub(now))", "_ = search", []string{"./internal/shards", "-run", "TestShardsThatCanBeHad"}},
	{"workers: leases that run out are awaited on a slow store", "internal/shards/memory.go", "|| m.isSlow() {", "{", []string{"./internal/shards", "-run", "TestWhenALease"}},
	{"workers: hosts look at shards of others on a slow store", "internal/shards/memory.go", "return m.slow\n", "return false\n", []string{"./internal/shards", "-run", "TestAStoreThatGetsSlow"}},
	{"workers: a look at shards of others begins on a slow store", "internal/shards/beside.go", "if b.Store.isSlow() {", "if false {", []string{"./internal/shards", "-run", "TestNoLookBeside"}},
	{"workers: a claim that was not sent is taken back", "internal/shards/memory.go", "if err := ctx.Err(); err != nil {", "if err := ctx.Err(); false {", []string{"./internal/shards", "-run", "TestLeaving"}},
	{"workers: the oldest run is given up", "internal/shards/balance.go", "k.began.After(youngest.began)", "k.began.Before(youngest.began)", fleetTests},
	{"workers: a worker that ends is run again at once", "internal/shards/balance.go", "k.pause = max(k.pause, shortestPause)", "_ = shortestPause", fleetTests},
	{"workers: another number of shards is not noticed", "internal/shards/members.go", "p.shards != m.shards {", "p.shards < 0 {", fleetTests},
	{"workers: forget leaves the places of hosts that are gone", "internal/cli/forget.go", "for _, name := range places {", "for _, name := range places[:0] {", []string{"./internal/cli", "-run", "TestScripts/^workers$"}},
	{"workers: the share of a place that cannot be read is nobody's", "internal/shards/rule.go", "if members == s.place+1 {", "if false {", []string{"./internal/shards", "-run", "CannotBeRead"}},
	{"workers: silence counts from an earlier sign of life", "internal/shards/memory.go", "m.seen[job].LastSeen != seen {", "m.seen[job].Token != seen.Token {", memoryTests},
}
