package main

var (
	zookeeperTests   = []string{"./backends/zookeeper", "-skip", "TestSuiteEnsemble|TestSuiteTLSAndACL"}
	zookeeperHostile = []string{"./backends/zookeeper/wire"}
)

// zookeeperMutants break the rules of the driver zookeeper.
var zookeeperMutants = []mutant{
	{"ZooKeeper: what is written over a record that was put back cannot be read", "backends/zookeeper/record.go", "c.alive || old.record.Beat < 0 {", "c.alive {", []string{"./backends/zookeeper", "-run", "PutBack"}},
	{"ZooKeeper: no compare of the record", "backends/zookeeper/record.go", "old.version + 1}), old.version)", "old.version + 1}), -1)", zookeeperTests},
	{"ZooKeeper: whose lease it is does not matter", "backends/zookeeper/record.go", "lease.Err != nil || lease.Stat.EphemeralOwner != s.id()", "lease.Err != nil", zookeeperTests},
	{"ZooKeeper: an end leaves the lease", "backends/zookeeper/record.go", "ops = append(ops, wire.Delete(k.lease, 0))", "_ = k", zookeeperTests},
	{"ZooKeeper: a vanished lease is taken for a released one", "backends/view.go", "Proof: ByBeat}", "Proof: ByRelease}", zookeeperTests},
	{"ZooKeeper: a beat that was put back counts", "backends/zookeeper/record.go", "if written.Version != node.Stat.Version {", "if false {", zookeeperTests},
	{"ZooKeeper: a lease that was written by hand counts", "backends/zookeeper/record.go", "case lease.Stat.EphemeralOwner == 0 || lease.Stat.Version != 0:", "case false:", zookeeperTests},
	{"ZooKeeper: a lease that makes no sense is none", "backends/zookeeper/acquire.go", "if old.foreign != nil {\n\t\t\treturn backends.Grant{}, old.foreign\n\t\t}\n", "", zookeeperTests},
	{"ZooKeeper: the record's TTL is the one asked for", "backends/zookeeper/acquire.go", "c.TTL = s.granted()", "_ = s.granted()", zookeeperTests},
	{"ZooKeeper: a session may be shorter than the TTL", "backends/zookeeper/session.go", "if !s.lease || granted >= known.Timeout {", "if granted > 0 {", zookeeperTests},
	{"ZooKeeper: a watch needs the session that it asks for", "backends/zookeeper/session.go", "if !s.lease || granted >= known.Timeout {", "if granted >= known.Timeout {", zookeeperTests},
	{"ZooKeeper: a TTL that no server grants is asked for again", "backends/zookeeper/errors.go", "if e, ok := errors.AsType[*tooShortError](err); ok {", "if e, ok := errors.AsType[*tooShortError](err); ok && e.asked < 0 {", zookeeperTests},
	{"ZooKeeper: one server that grants too little ends a run", "backends/zookeeper/session.go", "err = s.suits(conn, known)\n", "if err = s.suits(conn, known); err != nil {\n\t\t\t\treturn nil, d.unreached(err)\n\t\t\t}\n", zookeeperTests},
	{"ZooKeeper: the session of a run of which nobody knows stays", "backends/zookeeper/session.go", "\ts.d.prune()\n", "", zookeeperTests},
	{"ZooKeeper: a renewal is no sign of life", "backends/zookeeper/zookeeper.go", "alive: true, lease: hold", "lease: hold", zookeeperTests},
	{"ZooKeeper: a session that has expired is no loss", "backends/zookeeper/zookeeper.go", "err = d.confirmLoss(ctx, g, err)", "_ = d.confirmLoss", zookeeperTests},
	{"ZooKeeper: a connection that broke is a loss", "backends/zookeeper/zookeeper.go", "case errors.Is(err, wire.ErrExpired):\n\t\t\terr = d.confirmLoss(ctx, g, err)", "default:\n\t\t\terr = backends.ErrLost", zookeeperTests},
	{"ZooKeeper: a renewal does not ask for the lease", "backends/zookeeper/record.go", "ops = append(ops, wire.Check(k.lease, 0))", "_ = k", zookeeperTests},
	{"ZooKeeper: reads may be out of date", "backends/zookeeper/record.go", "s.do(ctx, synced, record, lease, again)", "s.do(ctx, record, lease, again)", zookeeperTests},
	{"ZooKeeper: a record in the place of another is taken for it", "backends/zookeeper/record.go", "if old.exists && stat.Czxid != old.born {", "if false {", zookeeperTests},
	{"ZooKeeper: a session that was ended is opened again", "backends/zookeeper/session.go", "if s.ended {", "if false {", zookeeperTests},
	{"ZooKeeper: the end of an altered grant ends the session of the true one", "backends/zookeeper/zookeeper.go", "h.Last().label == backends.LabelOf(g) {", "h.Last() != nil {", zookeeperTests},
	{"ZooKeeper: a watch does not stand when there is no node", "backends/zookeeper/watch.go", "if wire.Is(watch.Err, wire.NoNode) {", "if false {", zookeeperTests},
	{"ZooKeeper: a watch does not see the lease", "backends/zookeeper/watch.go", "[]string{w.keys.lease, w.keys.record}", "[]string{w.keys.record}", zookeeperTests},
	{"ZooKeeper: events that nobody watches for go on for ever", "backends/zookeeper/wire/conn.go", "if d.err == nil && !c.watched(e.Path) {", "if d.err == nil && e.Path == \"\" {", zookeeperHostile},
	{"ZooKeeper: a reply has any length", "backends/zookeeper/wire/conn.go", "n > maxFrame && !c.lists()", "n > 16*maxList", zookeeperHostile},
	{"ZooKeeper: a list has any number of names", "backends/zookeeper/wire/jute.go", " || n > maxItems:", ":", zookeeperHostile},
	{"ZooKeeper: a multi that failed is taken for done", "backends/zookeeper/wire/wire.go", "case done && failed && c.Err == nil:", "case done && failed && i < 0:", zookeeperHostile},
}
