package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// The hazard: a daemon whose disk is full cannot record the end of a run, gives up, and keeps the job from itself and from all others
// for as long as it lives.
func TestEndThatCannotBeWritten(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	for _, next := range []*driver{d, other} {
		c := claimFor("job")
		c.TTL = 50 * time.Millisecond
		g := steps.Acquire(d, c)
		fill(t, dir)
		if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); err == nil {
			t.Fatal("the disk is not full")
		}
		empty(t, dir)
		steps.Finish(next, acquireSoon(t, next, claimFor("job")))
	}
}

// fill keeps records from being written until empty is called.
func fill(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(pathsIn(dir, "job").tmp, "full"), dirMode); err != nil {
		t.Fatal(err)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(pathsIn(dir, "job").tmp); err != nil {
		t.Fatal(err)
	}
}

// A lease lapses only when its run is over and nobody has renewed it: the locks of this process may be all that tells of a run whose
// guardian is dead.
func TestLapse(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	l := leaseOf(t, g)
	lapse := func(late time.Duration) {
		l.mu.Lock()
		l.until = l.until.Add(-late)
		l.mu.Unlock()
		d.store.lapse(l)
	}
	lapse(time.Hour)
	steps.Refused(other, claimFor("job"), backends.Held)
	fill(t, dir)
	if err := d.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); err == nil {
		t.Fatal("the disk is not full")
	}
	empty(t, dir)
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	lapse(0)
	steps.Refused(other, claimFor("job"), backends.Held)
	lapse(time.Hour)
	if _, err := d.Renew(t.Context(), g); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Renew: %v, want ErrLost", err)
	}
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}

// The hazard: a disk grants a claim after its holder has given up, and that lease stays for ever.
func TestGrantThatComesTooLate(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	c := claimFor("job")
	grantTooLate(t, d, c)
	g := steps.Acquire(d, c) // the holder asks again
	l := leaseOf(t, g)
	if l.unwanted.Load() {
		t.Error("a lease that its holder has is taken for unwanted")
	}
	steps.Finish(d, g)
	c = claimFor("job")
	grantTooLate(t, d, c)
	steps.Refused(other, claimFor("job"), backends.Held)
	l = d.store.held["job"]
	l.until = time.Now()
	d.store.lapse(l)
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}

func grantTooLate(t *testing.T, d *driver, c backends.Claim) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tx := d.store.begin(backends.Request{Op: backends.ToClaim, Job: c.Job, Holder: c.Holder, TTL: c.TTL})
	s, err := tx.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	decision := backends.Decide(s.View(tx.q), c)
	cancel()
	label := backends.Label{Holder: c.Holder.ID, Token: decision.Grant.Token}
	_, _, err = tx.Swap(ctx, s, backends.Write{Record: decision.Record, Lease: &label, TTL: c.TTL, Beat: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want unknown", err)
	}
	tx.End(ctx, err)
}

// The end of a run may take long, on a disk that is slow. Its lease does not lapse while it is asked for, or the run would count as lost.
func TestALeaseStaysWhileItsEndIsAskedFor(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	c := claimFor("job")
	l := leaseOf(t, steps.Acquire(d, c))
	lapse := func() {
		l.mu.Lock()
		l.until = time.Now()
		l.mu.Unlock()
		d.store.lapse(l)
	}
	tx := d.store.begin(backends.Request{Op: backends.ToFinish, Job: c.Job, Holder: c.Holder})
	lapse()
	steps.Refused(other, claimFor("job"), backends.Held)
	tx.End(t.Context(), context.DeadlineExceeded)
	lapse()
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}
