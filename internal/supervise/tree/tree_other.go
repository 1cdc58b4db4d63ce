//go:build !linux

package tree

import "syscall"

// These systems have no subreaper and no cgroups that a process could count on: the process group of
// the command is what there is. doctor and docs/guarantees.md say so.

// Adopt does nothing here.
func Adopt() error { return nil }

// List returns nothing here: what left the process group is out of reach.
func List() []Process { return nil }

// Children returns nothing here.
func Children() []Process { return nil }

// Scan returns nothing here.
func Scan(int, func(Process) bool) (found []Process, all bool) { return nil, true }

// ForkedBy knows nothing here.
func ForkedBy(int) (pids []int, known bool) { return nil, false }

// Childless is not known here.
func Childless() bool { return false }

// ReserveThreads does nothing here: what it is for is not promised.
func ReserveThreads(int) {}

// KeepAlive does nothing here.
func KeepAlive() {}

// Sweeper does nothing here.
type Sweeper struct{}

// NewSweeper reserves nothing here.
func NewSweeper() *Sweeper { return &Sweeper{} }

// Release does nothing.
func (*Sweeper) Release() {}

// Reserve does nothing.
func (*Sweeper) Reserve() {}

// Kill does nothing.
func (*Sweeper) Kill(Work) (found int, calm bool) { return 0, true }

// Stat knows nothing here.
func Stat(int) (Process, bool) { return Process{}, false }

// Signal sends a signal to whoever has the number.
func Signal(p Process, sig syscall.Signal) { _ = syscall.Kill(p.PID, sig) }

// TracedOnly knows nothing here.
func TracedOnly(int, func(Process) bool, *Cgroup) (tracer int) { return 0 }

// Cgroup is never made here.
type Cgroup struct{}

// MakeCgroup always fails here.
func MakeCgroup(string) (*Cgroup, error) { return nil, syscall.ENOSYS }

// RemoveAbandonedCgroups has nothing to do here.
func RemoveAbandonedCgroups(string) {}

// OthersCgroup is none here.
func OthersCgroup(string) *Cgroup { return nil }

// Descriptor is none.
func (*Cgroup) Descriptor() int { return -1 }

// Kill does nothing.
func (*Cgroup) Kill() {}

// Signal does nothing.
func (*Cgroup) Signal(int, syscall.Signal) {}

// Populated is false.
func (*Cgroup) Populated() bool { return false }

// Processes lists nothing.
func (*Cgroup) Processes() []int { return nil }

// Remove does nothing.
func (*Cgroup) Remove() error { return nil }

// Close does nothing.
func (*Cgroup) Close() {}
