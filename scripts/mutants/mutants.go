package main

import "slices"

// mutant is one rule broken in one place, and the tests that must notice: arguments of go test.
type mutant struct {
	name, file, old, bad string
	packages             []string
}

var (
	runnerTests       = []string{"./runner"}
	decisionTests     = []string{"./backends", "-rapid.nofailfile"}
	redisTests        = []string{"./backends/redis", "-rapid.nofailfile"}
	redisConnTests    = []string{"./internal/redisconn"}
	redisHostileTests = []string{"./backends/redis", "-run", "TestHostileReplies"}
	redisEndlessTests = []string{"./backends/redis", "-run", "TestEndlessLists"}
	redisBrokenTests  = []string{"./backends/redis", "-run", "TestBrokenKeys"}
	etcdTests         = []string{"./backends/etcd", "-skip", "TestSuiteCluster|TestSuiteTLS"}
	consulTests       = []string{"./backends/consul", "-skip", "TestSuiteCluster|TestSuiteTLS"}
	processTests      = []string{"./internal/process/..."}
	daemonTests       = []string{"./internal/daemon"}
)

var mutants = slices.Concat(hostMutants, fenceMutants, answerMutants, kubernetesMutants, zookeeperMutants, postgresMutants, []mutant{
	{"validity of a claim counts from the reply", "runner/acquire.go", "a.grant, a.plan, a.asked = grant, plan, t0", "a.grant, a.plan, a.asked = grant, plan, now", runnerTests},
	{"validity of a renewal counts from the reply", "runner/renew.go", "h.asked = reply.t0", "h.asked = h.clock.Now()", runnerTests},
	{"another's life counts from the request", "runner/acquire.go", "a.witness(refusal.Seen, now)", "a.witness(refusal.Seen, t0)", runnerTests},
	{"every sign of life counts as a new one", "runner/acquire.go", "if n.Seen != a.sign() { // one", "if true { // one", runnerTests},
	{"a sign of life that was told does not count", "runner/acquire.go", "if n.Seen != a.sign() { // one", "if false { // one", runnerTests},
	{"a record that was lost forgets its tick", "backends/keep.go", "if tick > r.Tick.Tick {", "if false {", decisionTests},
	{"a record that was lost is not restored where it has the token", "backends/keep.go", "if r.Token > token || r.run(token) != nil {", "if r.Token >= token {", decisionTests},
	{"a record that was lost begins its beats anew", "backends/keep.go", "r.Beat = max(r.Beat, now)\n", "", decisionTests},
	{"a holder does not ask when it is told of a loss", "runner/renew.go", "h.newsAt = h.clock.Now()\n\t\th.lookSoon()", "h.newsAt = h.clock.Now()", runnerTests},
	{"a definite loss is taken for a silence", "runner/renew.go", "case errors.Is(reply.err, backends.ErrLost):\n\t\th.takeLoss()", "case errors.Is(reply.err, backends.ErrLost) && h.gone:\n\t\th.takeLoss()", runnerTests},
	{"a reply after the end counts", "runner/renew.go", "case now >= h.valid:", "case now >= h.valid && h.gone:", runnerTests},
	{"the clock stands still while the machine sleeps", "internal/boottime/boottime_linux.go", "clockBoottime    = 7", "clockBoottime    = 1", []string{"./internal/boottime"}},
	{"no margin for clock rates", "runner/timeline.go", "end := t0.Add(t.TTL - t.Margin())", "end := t0.Add(t.TTL)", runnerTests},
	{"no SIGKILL at the deadline", "runner/hold.go", "h.killed = h.clock.Now()\n\th.tree.Kill()", "h.killed = h.clock.Now()", runnerTests},
	{"released when the command ends, not when the tree is dead", "runner/hold.go", "h.status = s\n\th.report(", "h.status, h.dead = s, true\n\th.report(", runnerTests},
	{"released although the tree is not confirmed dead", "runner/finish.go", "if !h.dead {", "if false {", runnerTests},
	{"a late renewal saves a run that is being stopped", "runner/renew.go", "if !h.termed {\n\t\t\th.deadline", "if true {\n\t\t\th.deadline", runnerTests},
	{"a claim in flight is not abandoned", "runner/acquire.go", "if !ok && a.unclear {", "if false {", runnerTests},
	{"a vanished lease is not waited for", "runner/acquire.go", "case backends.Vanished, backends.Quarantined:", "case backends.Verdict(\"never\"):", runnerTests},
	{"a short rest of the lease is not renewed before the start", "runner/start.go", ">= a.plan.TTL/2", ">= 0", runnerTests},

	{"a try begins before the tree of the last one is dead", "runner/hold.go", "h.status = s\n\th.report(", "h.status = s\n\th.buried()\n\th.report(", runnerTests},
	{"a try begins beside the guardian of the last one", "runner/start.go", "a.closeTree() // first", "// first", runnerTests},
	{"the lease is not renewed between two tries", "runner/renew.go", "return !h.gone && h.clock.Now() < h.valid", "return !h.dead && !h.gone && h.clock.Now() < h.valid", runnerTests},
	{"a try begins although the lease is lost", "runner/tries.go", "h.retryAt != 0 && h.cause == 0 && !h.stopping", "h.retryAt != 0 && !h.stopping", runnerTests},
	{"a try begins although a signal ended the run", "runner/tries.go", "h.retryAt != 0 && h.cause == 0 && !h.stopping", "h.retryAt != 0 && h.cause == 0", runnerTests},
	{"a try begins before a signal that has arrived is heard", "runner/tries.go", "select {\n\tcase s := <-h.req.Signals:\n\t\th.forward(s)\n\t\treturn\n", "select {\n", runnerTests},
	{"a try begins under a short rest of the lease", "runner/tries.go", " || !h.fresh() {", " {", runnerTests},
	{"a command that was ended with its run is tried again", "runner/tries.go", "return failed && !h.final && ", "return failed && ", runnerTests},
	{"a command that had ended loses its outcome with its guardian", "runner/hold.go", "if h.status.Known {\n\t\tif h.overtime", "if false {\n\t\tif h.overtime", runnerTests},
	{"a command that has ended well is done although its leftovers lost the lease", "runner/hold.go", "\th.cause = LeaseLost\n\ttext :=", "\tif !h.settled() {\n\t\th.cause = LeaseLost\n\t}\n\ttext :=", runnerTests},
	{"a signal that came with the end of the command is taken for later", "runner/hold.go", "for range len(h.req.Signals) {", "for range 0 {", runnerTests},
	{"a try that took too long is done if its command ends well", "runner/finish.go", "case h.cause == TimedOut, h.overtime,", "case h.cause == TimedOut,", runnerTests},
	{"what comes after the command has ended changes its outcome", "runner/tries.go", "return h.status.Known && !h.dead && !h.another()", "return false", runnerTests},
	{"a try whose guardian is lost is taken for one that did not start", "runner/tries.go", "if err != nil && !errors.Is(err, lifeline.ErrGuardian) {", "if err != nil {", runnerTests},
	{"a try that cannot be started opens the tick again", "runner/finish.go", "case h.cause == TimedOut, h.overtime, h.cause == StartFailed:", "case h.cause == StartFailed:\n\t\to.State = backends.Open\n\tcase h.cause == TimedOut, h.overtime:", runnerTests},
	{"a check is answered by a renewal that was sent before", "runner/checks.go", "h.questions[n].sent < number", "number > 0", runnerTests},
	{"a check says yes while the lease is being given up", "runner/checks.go", "case h.cause == LeaseLost, now >= h.valid:", "case now >= h.valid:", runnerTests},
	{"checks put renewals off", "runner/renew.go", "h.renewAt = min(h.renewAt, now.Add(h.pause(h.failures+1)))", "h.renewAt = now.Add(h.plan.renewEvery())", runnerTests},
	{"the token of an earlier tick's run is no floor for ours", "runner/runner.go", "req.Floor = max(req.Floor, a.claim.Floor, result.Grant.Token)\n", "", runnerTests},
	{"the run of an earlier tick is taken for ours", "runner/runner.go", "if !a.oursIsNext(wanted, result) {", "if a != nil {", runnerTests},
	{"our tick runs after a signal to the earlier one's run", "runner/runner.go", " && r.Signal == 0 && ", " && ", runnerTests},
	{"a tick is claimed before its time", "runner/acquire.go", "if ahead <= 0 || ahead > nearTick {", "if ahead != nearTick+1 {", runnerTests},

	{"the token does not follow the clock", "backends/decide.go", "r.Token = max(r.Token+1, d.now, d.c.Floor+1)", "r.Token++", decisionTests},
	{"the token does not grow past the last one", "backends/decide.go", "r.Token = max(r.Token+1, d.now, d.c.Floor+1)", "r.Token = max(d.now, d.c.Floor+1)", decisionTests},
	{"a vanished holder is not waited for", "backends/decide.go", "if wait := d.holderMayLive(); wait > 0 {", "if wait := d.holderMayLive(); wait > 0 && false {", decisionTests},
	{"no quarantine", "backends/decide.go", "if v.Quarantine > 0 {", "if false {", decisionTests},
	{"a claim that was abandoned is granted", "backends/decide.go", "if d.hasEnded(c.Holder.ID) {", "if false {", decisionTests},
	{"a done tick starts again", "backends/decide.go", "case !unfinished(o.State):", "case false:", decisionTests},
	{"skip starts a lost tick again", "backends/decide.go", "o.Policy == Rerun && d.c.OnLost == Rerun &&", "", decisionTests},
	{"a tick is granted without being claimed", "backends/decide.go", "d.adopt()\n\tr.Tick = d.claimed(1)\n\treturn d.grant(d.c.Tick, 1)", "d.adopt()\n\treturn d.grant(d.c.Tick, 1)", decisionTests},
	{"a renewal does not compare the holder", "backends/keep.go", "return l != nil && l.Holder == g.Claim.Holder.ID && l.Token == g.Token", "return l != nil", decisionTests},
	{"a finish needs neither lease nor record", "backends/keep.go", "if !mine && !named {", "if !mine && !named && holder.ID == \"\" {", decisionTests},
	{"a renewal leaves the evidence as it was", "backends/keep.go", "r.Until = now + r.TTL", "r.Until = max(r.Until, r.Granted+r.TTL)", decisionTests},
	{"another server is not noticed", "backends/mark.go", "case m.Identity != s.Identity:", "case m.Identity == \"\":", decisionTests},
	{"a server that forgot is trusted since its start", "backends/mark.go", "restarted && !s.Forgot {", "restarted {", decisionTests},

	{"a path behind each host is one prefix", "internal/backendurl/backendurl.go", "if !f.Socket && !f.Name && strings.Contains(path, \",\") {", "if false {", []string{"./internal/backendurl"}},
	{"a watch that breaks as soon as it stands is begun anew at once", "backends/watch.go", "if time.Since(began) > longPause {", "if time.Since(began) >= 0 {", decisionTests},
	{"a watch goes on where no retry helps", "backends/watch.go", "follow(ctx, tell)); permanent {", "follow(ctx, tell)); permanent && false {", decisionTests},
	{"a watch outlives its driver", "backends/watch.go", "stop := context.AfterFunc(life, cancel)", "stop := context.AfterFunc(life, func() {})", decisionTests},

	{"an evicted record is taken for a new job", "backends/mark.go", "case !hasRecord && m.Evicted != s.Evicted:", "case false:", decisionTests},

	{"an end that is not the holder's is written", "backends/steps.go", "case e.Lost:\n\t\t\treturn ErrLost\n\t\t", "", decisionTests},
	{"an end is decided on what was there before", "backends/steps.go", "if s, done, err = x.Swap(ctx, job, s, Write{Record: e.Record", "if _, done, err = x.Swap(ctx, job, s, Write{Record: e.Record", decisionTests},
	{"an order overlooks what another program has put there", "backends/steps.go", "if x.Foreign != nil {", "if false {", decisionTests},
	{"what is known of a store that was set back stays", "backends/holding.go", "h.last == was || ", "", decisionTests},
	{"a renewal that was overtaken is what is known", "backends/holding.go", "is != nothing && h.newer(h.last, is)", "is != nothing", decisionTests},

	{"Redis: the client tries again by itself", "backends/redis/link.go", "MaxRetries:               -1,", "MaxRetries:               3,", redisTests},
	{"Redis: no compare on renew", "backends/redis/renew.lua", "if not lease or lease.holder ~= by.id or lease.token ~= token then", "if not lease then", redisTests},
	{"Redis: no compare on finish", "backends/redis/finish.lua", "local mine = lease and lease.holder == by.id and lease.token == token", "local mine = lease ~= nil and lease ~= false", redisTests},
	{"Redis: no evidence", "backends/redis/claim.lua", "if wait > 0 then", "if false then", redisTests},
	{"Redis: no quarantine", "backends/redis/claim.lua", "if quarantine > 0 then", "if false then", redisTests},
	{"Redis: replicas are not waited for", "backends/redis/script.go", "if acked < need {", "if acked < 0 {", redisTests},
	{"Redis: a replica that came back counts twice", "backends/redis/common.lua", "if not seen[address] then online", "if true then online", redisTests},
	{"Redis: two replicas of one address count once", "backends/redis/common.lua", "return math.max(online, speaking)", "return online", redisTests},
	{"Redis: a reply of another request is taken", "backends/redis/script.go", "got != nonce {", "got == \"\" {", redisTests},
	{"Redis: no bound to what a reply is", "internal/redisconn/redisconn.go", "n, c.refused = c.replies.pass(p[:n])", "_, c.refused = c.replies.pass(nil)", redisHostileTests},
	{"Redis: no bound to the length of a string", "internal/redisconn/frames.go", "case f.number > maxBytes-2-f.size:", "case false:", redisConnTests},
	{"Redis: no bound to the length of a line", "internal/redisconn/frames.go", "case f.size > maxBytes:", "case false:", redisConnTests},
	{"Redis: no bound to the elements of a reply", "internal/redisconn/frames.go", "case max(n, least) > maxElements-f.elements:", "case false:", redisConnTests},
	{"Redis: an empty map costs nothing", "internal/redisconn/frames.go", "n, least = 2*n, 16", "n, least = 2*n, 0", redisConnTests},
	{"Redis: no bound to the levels of a reply", "internal/redisconn/frames.go", "case f.depth == maxDepth:", "case f.depth == maxDepth && f.kind != '|':", redisConnTests},
	{"Redis: replies are counted together", "internal/redisconn/frames.go", "f.size, f.elements = 0, 0", "", redisConnTests},
	{"Redis: a message is what it should be", "backends/redis/watch.go", "if recover() != nil {", "if false {", redisHostileTests},
	{"Redis: a list of jobs may be endless", "backends/redis/inspect.go", "if names > maxNames {", "if names < 0 {", redisEndlessTests},
	{"Redis: a Cluster may have any number of masters", "backends/redis/inspect.go", "if len(masters) > maxMasters {", "if false {", redisEndlessTests},
	{"Redis: a list in a record may have any length", "backends/redis/record.go", "if len(*f) == maxEntries {", "if false {", []string{"./backends/redis", "-run", "FuzzRecord"}},
	{"Redis: a number that Lua rounds is a number", "backends/redis/common.lua", "if not n or not exact(n) then", "if not n then", redisBrokenTests},
	{"Redis: the token of a lease that Lua rounds is one", "backends/redis/common.lua", "if not id or not exact(tonumber(token)) then", "if not id then", redisBrokenTests},
	{"Redis: an object is taken for an empty list", "backends/redis/common.lua", "    if n ~= #l then return false end\n", "", redisBrokenTests},
	{"Redis: any state is one of a tick", "backends/redis/common.lua", "if r.tick.tick ~= 0 and not states[r.tick.state] then", "if false then", redisBrokenTests},

	{"etcd: no compare of the lease", "backends/etcd/record.go", "{Key: k.lease, Of: rpc.ModRevision, Value: old.leased},", "", etcdTests},
	{"etcd: no compare of the record", "backends/etcd/record.go", "{Key: k.record, Of: rpc.ModRevision, Value: old.written},", "", etcdTests},
	{"etcd: the record's TTL is the one asked for", "backends/etcd/acquire.go", "c.TTL = ttl\n", "_ = ttl\n", etcdTests},
	{"etcd: a renewal is a keep-alive alone", "backends/etcd/etcd.go", "now, done, err := d.swap(ctx, g.Claim.Job, s, change{record: renewal.Record, alive: true})", "now, done, err := s, true, error(nil)", etcdTests},
	{"etcd: a renewal does not keep the lease alive", "backends/etcd/etcd.go", "ttl, err := d.keepAlive(ctx, known.lease)\n\tswitch", "ttl, err := g.TTL, error(nil)\n\tswitch", etcdTests},
	{"etcd: one member's word is a loss", "backends/etcd/etcd.go", "case !now.sameLease(mine):", "case now != nil:", etcdTests},
	{"etcd: a vanished lease is taken for a released one", "backends/view.go", "Proof: ByBeat}", "Proof: ByRelease}", etcdTests},
	{"etcd: the beat is the record's", "backends/etcd/record.go", "s.record.Beat = 0\n", "", etcdTests},
	{"etcd: two clusters are taken for one", "backends/etcd/record.go", "if d.cluster.CompareAndSwap(0, id) || d.cluster.Load() == id {", "if true {", etcdTests},
	{"etcd: a claim revokes its own lease", "backends/etcd/acquire.go", "spare.used = true\n", "", etcdTests},

	{"Consul: no compare of the lock", "backends/consul/txn.go", "steps := []*api.KVTxnOp{unchanged, {", "steps := []*api.KVTxnOp{{", consulTests},
	{"Consul: no compare of the record", "backends/consul/txn.go", "{Verb: api.KVCAS,", "{Verb: api.KVSet,", consulTests},
	{"Consul: a vanished lease is taken for a released one", "backends/consul/record.go", "Proof: backends.ByBeat}", "Proof: backends.ByRelease}", consulTests},
	{"Consul: no lock-delay", "backends/consul/txn.go", "min(max(2*ttl/3, time.Millisecond), maxLockDelay)", "min(max(2*ttl/3, time.Millisecond), time.Millisecond)", consulTests},
	{"Consul: a renewal does not renew the session", "backends/consul/consul.go", "if err = d.renewSession(ctx, s.lock.session); err == nil {", "if err == nil {", consulTests},
	{"Consul: a claim destroys its own session", "backends/consul/acquire.go", "if s.lock.session == *spare { //", "if false { //", consulTests},
	{"Consul: a session with health checks", "backends/consul/txn.go", "CreateNoChecks(", "Create(", consulTests},
	{"Consul: reads may be out of date", "backends/consul/txn.go", "RequireConsistent: true", "RequireConsistent: false, AllowStale: true", consulTests},

	{"guardian: does not kill at the deadline", "internal/process/guardian/run.go", "case now >= g.deadline.Kill:", "case now < 0:", processTests},
	{"guardian: kills without a word where it slept through the time of SIGTERM", "internal/process/guardian/run.go", "if !g.termed && !g.empty() { // the machine", "if false { // the machine", processTests},
	{"wrapper: a guardian that fell silent at the deadline is waited for past the lease", "internal/process/watchdog.go", "w.lastHeard.Add(lateBeat)", "w.lastHeard.Add(silence)", processTests},
	{"guardian: outlives its wrapper", "internal/process/guardian/orders.go", "g.terminate()\n\tg.soonerKill(boottime.Now().Add(g.order.Grace))", "", processTests},
	{"guardian: starts a run that is too late", "internal/process/guardian/orders.go", "if boottime.Now() >= order.Deadline.Term {", "if false {", processTests},
	{"guardian: unlocks before the tree is dead", "internal/process/guardian/orders.go", "g.gone, g.out = true, nil\n", "g.gone, g.out = true, nil\n\tg.unlock()\n", processTests},
	{"guardian: only the process group is killed", "internal/process/guardian/run.go", "left := tree.Sweep(g.descendants)\n\tg.reap() // first", "left := 1 // first", processTests},
	{"a process without its main thread is taken for dead", "internal/process/tree/tree.go", "p.State == 'Z' && p.Threads <= 1", "p.State == 'Z'", processTests},
	{"wrapper: a guardian is lost that had no time to read of a late extension", "internal/process/watchdog.go", "max(w.acked.Term, e.sent.Add(timeToAck))", "max(w.acked.Term, e.sent)", processTests},
	{"wrapper: a guardian that kills may be silent past the deadline", "internal/process/watchdog.go", "min(sooner, w.acked.Kill.Add(graceToAnswer))", "sooner", processTests},
	{"wrapper: an extension that nobody reads puts off the time of SIGKILL", "internal/process/watchdog.go", "at := w.acked.Kill.Add", "at := w.sent.Kill.Add", processTests},
	{"wrapper: a sweep that reaps a zombie proves death", "internal/process/sweep.go", "\t\tleft++\n\t\tif p.Parent == syscall.Getpid() && p.Zombie() {\n\t\t\treap(p.PID)", "\t\tif p.Parent != syscall.Getpid() || !p.Zombie() || !reap(p.PID) {\n\t\t\tleft++", processTests},
	{"wrapper: a run survives its guardian", "internal/process/run.go", "if started && !dead {\n\t\tg.takeOver(\"died\")", "if started && !dead {\n\t\tg.bury()\n\t\tg.tellDead(lifeline.Status{})", processTests},

	{"daemon: a reload forgets what came due", "internal/daemon/daemon.go", "d.fire(d.Clock.Now()) // what is due by the old file", "// what is due by the old file", daemonTests},
	{"daemon: a clock that was turned back is not noticed", "internal/daemon/daemon.go", "if stepped(last, now) {", "if stepped(last, now) && last == now {", daemonTests},
	{"daemon: a clock that was turned back replaces a run by itself", "internal/daemon/due.go", "if !other.tick.Before(tick) { // the", "if other.tick.After(tick) { // the", daemonTests},
	{"daemon: the first of the ticks that have passed is started", "internal/daemon/due.go", "d.due(j, tick, false)", "_ = tick\n\t\t\td.due(j, j.next, false)", daemonTests},
	{"daemon: drain stops commands", "internal/daemon/daemon.go", "a.giveUp(ErrDrain)", "a.cancel(ErrDrain)", daemonTests},
	{"daemon: drain lets ticks start", "internal/daemon/daemon.go", "a.giveUp(ErrDrain)", "_ = ErrDrain", daemonTests},
	{"daemon: a place among those that start is not given back", "internal/daemon/run.go", "t.has = false\n\t\t<-t.room", "t.has = false", daemonTests},
	{"daemon: who waits for the backend keeps its place", "internal/daemon/run.go", ", runner.EventSilent: // it", ": // it", daemonTests},
	{"daemon: a lost tick is not stood by for again", "internal/daemon/due.go", "return earlier || def.OnLost == backends.Rerun", "return earlier", daemonTests},
	{"daemon: our tick goes with an earlier one", "internal/daemon/due.go", "case runner.Broken, runner.Unconfirmed:\n\t\treturn earlier", "case runner.Broken, runner.Unconfirmed:\n\t\treturn false", daemonTests},
	{"daemon: after an outage old ticks are in the way", "internal/daemon/due.go", "other.giveUp(ErrOvertaken)", "_ = ErrOvertaken", daemonTests},
	{"daemon: catching up goes on while a run is in the way", "internal/daemon/due.go", "return r.Refusal.Verdict != backends.Held", "return true", daemonTests},
	{"daemon: a tick that could not be started is passed over", "internal/daemon/due.go", "return r.Status.Known\n\tcase runner.Unreachable", "return true\n\tcase runner.Unreachable", daemonTests},
	{"daemon: a tick does not wait for the end of what it overtook", "internal/daemon/due.go", "after: overtaken,", "after: overtaken[:0],", daemonTests},
	{"daemon: a store that does not answer has nothing to catch up", "internal/daemon/request.go", "return nil, err\n\tcase err != nil ||", "return own, nil\n\tcase err != nil ||", daemonTests},
	{"daemon: what waits to be caught up is claimed beside a run", "internal/daemon/request.go", "status.Lease != nil:\n\t\treturn nil, nil", "status.Lease != nil:\n\t\treturn ticks, nil", daemonTests},
	{"runner: a standby does not tell that the store answers again", "runner/acquire.go", "a.behind != behindSilence {", "a.behind == behindNobody {", daemonTests},
	{"daemon: a host that lacks the command claims", "internal/daemon/run.go", "if err := launch.Look(); err != nil {", "if err := launch.Look(); err != nil && tick.IsZero() {", daemonTests},
	{"daemon: a new job catches up", "internal/daemon/request.go", "case err != nil || status.Record.Tick.Tick == 0:\n\t\tif a.startup {", "case err != nil || status.Record.Tick.Tick == 0:\n\t\tif a == nil {", daemonTests},
	{"daemon: nothing is caught up", "internal/daemon/request.go", "len(ticks) <= def.CatchUp;", "len(ticks) < 1;", daemonTests},
	{"daemon: what was claimed and never started is left out", "internal/daemon/request.go", "case r.Tick.State == backends.Open, ", "case ", daemonTests},
	{"daemon: what forbid forbade is caught up", "internal/daemon/request.go", "last = max(last, r.Passed)", "last = max(last, 0)", daemonTests},
	{"daemon: forbid waits", "internal/daemon/request.go", "return def.Overlap != jobfile.Forbid || def.OnLost", "return def.Overlap != \"\" || def.OnLost", daemonTests},
	{"daemon: rerun under forbid waits for earlier ticks", "internal/daemon/request.go", "r.SameTickOnly = def.Overlap == jobfile.Forbid", "r.SameTickOnly = false", daemonTests},
	{"daemon: replace does not reach other hosts", "internal/daemon/run.go", "if a.def.Overlap == jobfile.Replace {", "if a == nil && a.def.Overlap == jobfile.Replace {", daemonTests},
	{"daemon: tokens of a job that was removed are forgotten", "internal/daemon/daemon.go", "delete(d.jobs, name)\n", "delete(d.jobs, name)\n\t\tdelete(d.floors, name)\n", daemonTests},
	{"a run that is not wanted any more starts", "runner/start.go", "if a.unwanted(ctx) {", "if a == nil {", runnerTests},
	{"after an earlier tick a run that is not wanted claims", "runner/runner.go", "r.Signal == 0 && !a.unwanted(wanted)", "r.Signal == 0", runnerTests},
})
