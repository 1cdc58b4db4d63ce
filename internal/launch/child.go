// Package launch has what `run` and `cron` start alike: the trigger of a run and its options, the process tree and environment of a command,
// the socket at which it asks whether it leads, its output, and what is told of its end. A family of commands may use it; the frame of the
// command line does not.
package launch

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/supervise"
	"github.com/leaderrun/leaderrun/internal/supervise/ahead"
	"github.com/leaderrun/leaderrun/runner"
)

// ChildEnvironment is the environment without what is leaderrun's or a service manager's word to leaderrun:
// the backend's password, the outer run's token, the socket of a notification that is not the child's to send.
// extra is the name of a variable that the run sets besides its own: of two entries of one name, getenv(3)
// finds the first.
func ChildEnvironment(environ []string, extra string) []string {
	kept := make([]string, 0, len(environ)+8)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, cli.Prefix), strings.HasPrefix(name, "WATCHDOG_"):
		case name == notifySocket, name == extra:
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}

// GrantVariables tell the child of its grant.
func GrantVariables(g backends.Grant, extra string) []string {
	token := strconv.FormatInt(g.Token, 10)
	vars := []string{
		cli.JobVariable + "=" + g.Claim.Job,
		cli.TokenVariable + "=" + token,
		cli.HolderVariable + "=" + g.Claim.Holder.ID,
		cli.AttemptVariable + "=" + strconv.Itoa(max(g.Attempt, 1)),
	}
	if g.Native != "" {
		vars = append(vars, cli.NativeVariable+"="+g.Native)
	}
	if g.Tick != 0 {
		vars = append(vars, cli.TickVariable+"="+cli.TickText(g.Tick), cli.TickUnixVariable+"="+strconv.FormatInt(g.Tick, 10))
	}
	if g.Claim.Once != "" {
		vars = append(vars, cli.OnceVariable+"="+g.Claim.Once)
	}
	if extra != "" && extra != cli.TokenVariable {
		vars = append(vars, extra+"="+token)
	}
	return vars
}

// SlotVariables tell the child which of n slots it has, if the job has any.
func SlotVariables(g backends.Grant, n int) []string {
	_, slot, ok := slots.Split(g.Claim.Job)
	if n == 0 || !ok {
		return nil
	}
	return []string{cli.SlotVariable + "=" + strconv.Itoa(slot), cli.SlotsVariable + "=" + strconv.Itoa(n)}
}

// shardVariables tell the child which shard it is to do, and of how many, if the job is divided.
func shardVariables(g backends.Grant) []string {
	_, shard, ok := slots.Split(g.Claim.Job)
	if g.Claim.Parts == 0 || !ok {
		return nil
	}
	return []string{cli.ShardVariable + "=" + strconv.Itoa(shard), cli.ShardsVariable + "=" + strconv.Itoa(g.Claim.Parts)}
}

// valueIn returns the value of one of the run's variables, or "".
func valueIn(vars []string, name string) string {
	for _, entry := range vars {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Tree is the process tree of one run. Its guardian starts while options are read and the claim is in flight.
type Tree struct {
	*supervise.Guard // which does all that the runner wants after Start; nil before

	Command supervise.Command // to be set before Start
	warn    func(string)
	pending *supervise.Pending
}

var _ runner.Tree = (*Tree)(nil)

// NewTree starts the guardian, unless that was done before this package was initialised, and returns at once.
func NewTree(v *cli.Console) *Tree {
	t := &Tree{warn: func(text string) { v.Warn(text, "") }}
	supervise.ReapStrays()
	t.pending = supervise.Begin(supervise.Options{Warn: t.warn, Begun: ahead.Take})
	return t
}

// Begin is newTree for a command line that is not read yet.
func Begin(v *cli.Console) cli.Early { return NewTree(v) }

// BegunTree is the tree that was begun for a call; nil: there is none.
func BegunTree(c *cli.Call) *Tree {
	t, _ := c.Ahead.(*Tree)
	return t
}

// Start implements runner.Tree.
func (t *Tree) Start(env []string, hold, inherit []*os.File, d runner.Deadline) (err error) {
	if t.Guard, err = guardianBy(t.pending, d); err != nil {
		return err
	}
	c := t.Command
	c.Env, c.Socket, c.Holder = slices.Concat(c.Env, env), valueIn(env, cli.SocketVariable), valueIn(env, cli.HolderVariable)
	c.Hold, c.Inherit = hold, inherit
	err = t.Guard.Start(c, d)
	if !errors.Is(err, supervise.ErrGone) {
		return err
	}
	// The guardian of a standby was killed while it waited: another one takes its place.
	_ = t.Dismiss()
	t.pending = supervise.Begin(supervise.Options{Warn: t.warn})
	if t.Guard, err = guardianBy(t.pending, d); err != nil {
		return err
	}
	return t.Guard.Start(c, d)
}

// NoProcesses is the fault of a host on which the processes of a run cannot be found; nil: they can. Nothing may start there: it could
// not be ended before another holder is granted the job.
func NoProcesses() error {
	if supervise.FindsProcesses() {
		return nil
	}
	return &cli.Fault{Code: cli.CodeConfiguration, What: "/proc", Why: WhyNoProcesses, Hint: MountProc}
}

// What is wrong with a /proc in which the processes of a run cannot be found, and the remedy.
const (
	WhyNoProcesses = "it does not show the processes of this PID namespace, and those of a run could not be found and killed"
	MountProc      = "mount -t proc proc /proc; unshare does so with --mount-proc, and nsenter goes to the one that is there with -m"
)

// guardianBy returns the guardian of a run, where it comes in time for the command to start.
func guardianBy(p *supervise.Pending, d runner.Deadline) (*supervise.Guard, error) {
	guard, err := p.By(d.Term)
	if err != nil && !errors.Is(err, supervise.ErrTooLate) {
		return nil, &cli.Fault{Code: cli.CodeInternal, What: "the guardian cannot be started", Why: err.Error(), Err: err}
	}
	return guard, err
}

// Close implements runner.Tree. It does not wait for the guardian's end: whoever makes the next tree does, and the end
// of the program.
func (t *Tree) Close() {
	if guard, err := t.pending.By(boottime.Now().Add(forkPatience)); err == nil {
		_ = guard.Dismiss()
	}
}

// Discard sends a guardian away that has nothing left to guard, and waits until it is gone. One whose tree could not be
// confirmed dead stays.
func (t *Tree) Discard() {
	if guard, err := t.pending.By(boottime.Now().Add(forkPatience)); err == nil {
		_ = guard.Close()
	}
}

// forkPatience is how long the end of a run waits for a guardian that hangs between fork(2) and exec(2), as on a disk that does
// not answer: such a one has started nothing, and ends with the control channel.
const forkPatience = time.Second
