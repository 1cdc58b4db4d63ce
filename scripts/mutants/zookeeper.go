package main

var (
	zookeeperTests   = []string{"./backends/zookeeper", "-skip", "TestSuiteEnsemble|TestSuiteTLSAndACL"}
	zookeeperHostile = []string{"./backends/zookeeper/wire"}
)

// zookeeperMutants break the rules of the driver zookeeper.
var zookeeperMutants = []mutant{
	{"ZooKeeper: what is written over a record that was put back cannot be read", "backends/zookeeper/swap.go", "w.Beat || beat < 0 {", "w.Beat {", []string{"./backends/zookeeper", "-run", "PutBack"}},
	{"ZooKeeper: no compare of the record", "backends/zookeeper/swap.go", "old.version + 1}), old.version)", "old.version + 1}), -1)", zookeeperTests},
	{"ZooKeeper: whose lease it is does not matter", "backends/zookeeper/swap.go", "lease.Err != nil || lease.Stat.EphemeralOwner != s.id()", "lease.Err != nil", zookeeperTests},
	{"ZooKeeper: an end leaves the lease", "backends/zookeeper/swap.go", "case held, w.Release:", "case held:", zookeeperTests},
	{"ZooKeeper: a vanished lease is taken for a released one", "backends/view.go", "Proof: ByBeat}", "Proof: ByRelease}", zookeeperTests},
	{"ZooKeeper: a beat that was put back counts", "backends/zookeeper/read.go", "if written.Version != node.Stat.Version {", "if false {", zookeeperTests},
	{"ZooKeeper: a lease that was written by hand counts", "backends/zookeeper/read.go", "case lease.Stat.EphemeralOwner == 0 || lease.Stat.Version != 0:", "case false:", zookeeperTests},
	{"ZooKeeper: a lease that makes no sense is none", "backends/zookeeper/read.go", "v.Foreign = s.foreign", "_ = v", zookeeperTests},
	{"ZooKeeper: the record's TTL is the one asked for", "backends/zookeeper/extend.go", "return t.session.granted(), t", "return t.q.TTL, t", zookeeperTests},
	{"ZooKeeper: a session may be shorter than the TTL", "backends/zookeeper/session.go", "if !s.lease || granted >= known.Timeout {", "if granted > 0 {", zookeeperTests},
	{"ZooKeeper: a watch needs the session that it asks for", "backends/zookeeper/session.go", "if !s.lease || granted >= known.Timeout {", "if granted >= known.Timeout {", zookeeperTests},
	{"ZooKeeper: a TTL that no server grants is asked for again", "backends/zookeeper/errors.go", "if e, ok := errors.AsType[*tooShortError](err); ok {", "if e, ok := errors.AsType[*tooShortError](err); ok && e.asked < 0 {", zookeeperTests},
	{"ZooKeeper: one server that grants too little ends a run", "backends/zookeeper/session.go", "err = s.suits(conn, known)\n", "if err = s.suits(conn, known); err != nil {\n\t\t\t\treturn nil, s.store.unreached(err)\n\t\t\t}\n", zookeeperTests},
	{"ZooKeeper: the session of a run of which nobody knows stays", "backends/zookeeper/session.go", "\ts.store.prune()\n", "", zookeeperTests},
	{"ZooKeeper: a renewal is no sign of life", "backends/zookeeper/swap.go", "w.Beat || beat < 0 {", "w.Beat && !old.held || beat < 0 {", zookeeperTests},
	{"ZooKeeper: a session that has expired is no loss", "backends/zookeeper/zookeeper.go", "case backends.ToRenew, backends.ToFinish:\n", "case backends.ToFinish:\n", zookeeperTests},
	{"ZooKeeper: a connection that broke is a loss", "backends/zookeeper/swap.go", "case err != nil:\n", "case err != nil && t.q.Op == backends.ToRenew:\n\t\treturn nil, false, backends.ErrLost\n\tcase err != nil:\n", zookeeperTests},
	{"ZooKeeper: a renewal does not ask for the lease", "backends/zookeeper/swap.go", "ops = append(ops, wire.Check(k.lease, 0))", "_ = k", zookeeperTests},
	{"ZooKeeper: reads may be out of date", "backends/zookeeper/read.go", "s.do(ctx, synced, record, lease, again)", "s.do(ctx, record, lease, again)", zookeeperTests},
	{"ZooKeeper: a record in the place of another is taken for it", "backends/zookeeper/swap.go", "if old.exists && stat.Czxid != old.born {", "if false {", zookeeperTests},
	{"ZooKeeper: a session that was ended is opened again", "backends/zookeeper/session.go", "case ended:", "case ended && false:", zookeeperTests},
	{"ZooKeeper: a look fails with one of several servers", "backends/zookeeper/zookeeper.go", "if len(t.cfg.url.Addrs) == 1 ||", "if true ||", zookeeperTests},
	{"ZooKeeper: a renewal beside an end fails", "backends/zookeeper/zookeeper.go", " && t.session.isOpen() {", " {", zookeeperTests},
	{"ZooKeeper: an end goes by what was known", "backends/zookeeper/zookeeper.go", ", EndsRead: true,", ",", zookeeperTests},
	{"ZooKeeper: the end of an altered grant ends the session of the true one", "backends/zookeeper/zookeeper.go", " && !t.last.isUnder(s) {", " {", zookeeperTests},
	{"ZooKeeper: a watch does not stand when there is no node", "backends/zookeeper/watch.go", "if wire.Is(watch.Err, wire.NoNode) {", "if false {", zookeeperTests},
	{"ZooKeeper: a watch does not see the lease", "backends/zookeeper/watch.go", "[]string{w.keys.lease, w.keys.record}", "[]string{w.keys.record}", zookeeperTests},
	{"ZooKeeper: events that nobody watches for go on for ever", "backends/zookeeper/wire/conn.go", "if d.err == nil && !c.watched(path) {", "if d.err == nil && path == \"\" {", zookeeperHostile},
	{"ZooKeeper: a reply has any length", "backends/zookeeper/wire/conn.go", "n > maxFrame && !c.lists()", "n > 16*maxList", zookeeperHostile},
	{"ZooKeeper: a list has any number of names", "backends/zookeeper/wire/jute.go", " || n > maxItems:", ":", zookeeperHostile},
	{"ZooKeeper: a multi that failed is taken for done", "backends/zookeeper/wire/wire.go", "case done && failed && c.Err == nil:", "case done && failed && i < 0:", zookeeperHostile},
}
