package main

// orderTests explore every order of requests and faults around the machine and the engine.
var orderTests = []string{"./runner", "-short", "-run", "TestEveryOrder"}

// redisProofs are about what Redis compares in the step in which it writes, and who must have what it wrote.
var redisProofs = []string{"./backends/redis", "-run", "TestTheMark|WrittenOnWhatWasRead|TestNotes|TestAReplicaIs|TestReplicaThatCameAfter|TestForgetting"}

// engineMutants break how requests are carried out, and what the machine makes of the answers.
var engineMutants = []mutant{
	{"the clocks are read before an input is waited for", "runner/loop.go", "\tfor {\n\t\tfor len(l.waiting) == 0 {\n\t\t\tl.receive()\n\t\t}\n\t\tin := l.waiting[0]\n\t\tl.waiting = l.waiting[1:]\n\t\tfor _, a := range l.machine.step(l.moment(), in) {", "\tfor {\n\t\tat := l.moment()\n\t\tfor len(l.waiting) == 0 {\n\t\t\tl.receive()\n\t\t}\n\t\tin := l.waiting[0]\n\t\tl.waiting = l.waiting[1:]\n\t\tfor _, a := range l.machine.step(at, in) {", runnerTests},
	{"Redis: what a replica says counts", "backends/redis/common.lua", "if needed_fact(replication, 'role') ~= 'master' then", "if needed_fact(replication, 'role') == '' then", redisProofs},
	{"Redis: a mark that was made anew is taken for the one before", "backends/redis/swap.lua", "'epoch', nonce)", "'epoch', '1')", redisProofs},
	{"Redis: a note undoes a renewal", "backends/redis/swap.go", "reflect.DeepEqual(old[field].Interface(), is.Interface())", "reflect.DeepEqual(old, nil)", redisProofs},
	{"Redis: replicas that came after the read are not waited for", "backends/redis/script.go", "need := s.cfg.required(int(s.mostSeen(replicas)))", "need := s.cfg.required(int(s.mostSeen(min(replicas, 0))))", redisProofs},
	{"Redis: a script that the server has forgotten is not sent again", "backends/redis/script.go", "goredis.HasErrorPrefix(err, \"NOSCRIPT\")", "goredis.HasErrorPrefix(err, \"NOSCRIPT\") && sha == \"\"", redisProofs},
	{"engine: those who always meet somebody make no pause", "backends/engine.go", "case t.conflicts > 1:", "case t.conflicts < 0:", decisionTests},
	{"engine: what was decided for a shorter TTL is written", "backends/engine.go", "t.q.TTL = ttl\n\t\tt.plan = decideOn(t.s, t.q, t.rule)\n", "t.q.TTL = ttl\n", decisionTests},
	{"engine: an end that changes nothing is never written again", "backends/engine.go", "Release: d.Release}, needed: d.Changed || e.traits.Rewrites}\n", "Release: d.Release}, needed: d.Changed}\n", decisionTests},
	{"engine: what nobody could read again is written", "backends/engine.go", "p.needed && wrong != nil {", "p.needed && wrong != nil && false {", decisionTests},
	{"engine: a store that refuses is asked again with the same password", "backends/rekey.go", "if err != nil || text == u.last {", "if err != nil {", decisionTests},
	{"engine: a URL that is read again may name another store", "internal/backendurl/login.go", "if other.place != u.place {", "if false {", []string{"./internal/backendurl"}},
	{"engine: a record does not say which form it has", "backends/engine.go", "\tp.write.Record.Form = RecordForm\n", "", decisionTests},
	{"a record of a newer form is read", "backends/record.go", "if form > RecordForm {", "if form > RecordForm+7 {", decisionTests},
	{"a quarantine that is on ends on another server", "backends/mark.go", "max(m.Until, since+next.Longest)", "since + next.Longest", decisionTests},
	{"slots: a grant that came too late is forgotten", "internal/slots/driver.go", "if d.ours != nil { // the machine", "if d.ours != nil && d.job == \"\" { // the machine", []string{"./internal/slots"}},
	{"Redis: a script that fails has written half of a claim", "backends/redis/swap.lua", "number(mark_key, 'longest') -- what cannot be read ends the script before anything is written\n", "", []string{"./backends/redis", "-run", "TestAScriptThatFails"}},
	{"Redis: a newer record is added to", "backends/redis/swap.lua", "form and number(record_key, 'form') <= form or", "form or", []string{"./backends/redis", "-run", "TestANewerRecord"}},
	{"engine: a renewal beside a silent one goes the same way", "backends/engine.go", "cache.Hedge(func() { q.IsHedge = true })", "cache.Hedge(func() {})", decisionTests},
	{"engine: an end goes by what was known where it must read", "backends/engine.go", "if !q.Doubted && !(q.Op == ToFinish && e.traits.EndsRead) {", "if !q.Doubted {", decisionTests},
	{"engine: a write that met somebody is taken for done", "backends/engine.go", "case done:\n\t\tt.s = now", "case done, now != nil:\n\t\tt.s = now", orderTests},
	{"engine: what a request that panics has locked stays so", "backends/engine.go", "defer func() { tx.End(ctx, err) }()", "defer func() {\n\t\tif err != errPanic {\n\t\t\ttx.End(ctx, err)\n\t\t}\n\t}()", []string{"./backends/file", "-run", "TestDecisionThatPanics"}},
	{"a repeated claim gets another token", "backends/decide.go", "g := Grant{Claim: d.c, Token: r.Token, TTL: d.c.TTL, Tick: d.c.Tick, Attempt: 1}", "r.Token++\n\tg := Grant{Claim: d.c, Token: r.Token, TTL: d.c.TTL, Tick: d.c.Tick, Attempt: 1}", decisionTests},
	{"a repeated claim leaves the evidence as it was", "backends/decide.go", "restore(r, d.c, d.v.Lease.Token, d.c.Tick, 1, d.now)\n\textend(r, d.c.TTL, d.now)\n", "restore(r, d.c, d.v.Lease.Token, d.c.Tick, 1, d.now)\n", decisionTests},
	{"a lease that an operator takes away is released", "backends/order.go", "\tr.Beat++\n}", "\tr.Beat++\n\tr.Released = r.Token\n}", orderTests},
	{"a job is forgotten while its holder may live", "backends/order.go", "if err := d.mayLive(); err != nil {\n\t\treturn err\n\t}\n\tr := d.Record", "r := d.Record", orderTests},
	{"the silence of a holder counts from nothing", "backends/decide.go", "if d.c.Seen.Token == r.Token && d.c.Seen.Beat == r.Beat {", "if d.c.Seen.Token == r.Token {", orderTests},
	{"a lease is extended from the reply to its renewal", "runner/lease.go", "m.extend(a.t0)\n", "m.extend(m.now)\n", orderTests},
}
