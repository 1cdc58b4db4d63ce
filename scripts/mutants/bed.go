package main

import "regexp"

// ordeal is a mutant that package bed must notice on a whole bed of hosts: a store, and one fault.
type ordeal struct{ mutant, store, fault string }

// ordeals are run with -bed. Often two layers must fail before two copies run: a wrapper that does not kill at the deadline
// has a guardian that does, and a guardian that outlives its wrapper still kills at the deadline. Such mutants are for the
// tests of their layer.
var ordeals = []ordeal{
	{"guardian: does not kill at the deadline", "redis", "wrapper stopped"},
	{"guardian: only the process group is killed", "redis", "wrapper killed"},
	{"guardian: unlocks before the tree is dead", "file", "wrapper killed"},
	{"wrapper: a run survives its guardian", "redis", "guardian killed"},
	{"released when the command ends, not when the tree is dead", "redis", "command killed"},
	{"Redis: no evidence", "redis", "lease deleted"},
	{"Redis: replicas are not waited for", "sentinel", "leader cut off from the others"},
	{"etcd: a vanished lease is taken for a released one", "etcd", "lease revoked"},
	{"Kubernetes: a vanished lease is taken for a released one", "kubernetes", "holder taken out"},
	{"ZooKeeper: a vanished lease is taken for a released one", "zookeeper", "lease deleted"},
	{"PostgreSQL: a start is no other server", "postgres", "server restored from a backup"},
	{"a tick is granted without being claimed", "etcd", "command killed"},
	{"the token does not follow the clock", "etcd", "store emptied"},
}

// dividedOrdeals are noticed on a bed of jobs with slots and shards, by a host that waits for a slot.
var dividedOrdeals = []ordeal{
	{"released when the command ends, not when the tree is dead", "redis", "command killed"},
}

// tests are the arguments of go test that let the fault happen.
func (o ordeal) tests() []string {
	return []string{"./test/bed", "-run", "TestFault/leaderrun", "-store", o.store, "-each", "^" + regexp.QuoteMeta(o.fault) + "$"}
}
