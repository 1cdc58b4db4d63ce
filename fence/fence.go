// Package fence is the resource's side of a fencing token: it makes a resource refuse the writes of a run that has been
// overtaken. A lease alone cannot do that. A write that was sent before a pause arrives after it, when another run leads;
// only the resource sees both (Kleppmann, "How to do distributed locking", 2016).
//
// Every resource keeps the highest token that it has seen, and three rules hold for each:
//
//   - A write passes if its token is not below the highest one seen. To compare, to keep the new highest and to write is one
//     atomic step: between two there is room for a pause.
//   - A run raises the fence before it reads what it is going to change. Otherwise a late write of the run before it could
//     land between its read and its first write, and be overwritten by something that never knew of it. So Raise is the only
//     way to something that writes.
//   - A token equal to the highest is the same run, and passes.
//
// The packages below this one do it for files, SQL databases, Redis, S3 and HTTP. What has no such place (mail, rsync, an API of
// somebody else's) cannot be fenced: see docs/fencing.md.
//
// Tokens are numbers of one job. Those of two jobs say nothing about each other, so a resource is written by one job.
package fence

import "context"

// Resource is something that refuses the writes of a run that has been overtaken. W is what a run writes with.
//
// An implementation may be used by several goroutines at once.
type Resource[W any] interface {
	// Raise makes the resource refuse every run before r from now on, and returns what r writes with. The error is a
	// *StaleError if r itself has been overtaken, and a *SetupError if nothing will work before somebody has changed something;
	// after any other it is not known whether the fence was raised, and to raise it again does no harm.
	Raise(ctx context.Context, r Run) (W, error)
}
