package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/test/suite"
)

// The guardian kills the tree of a stopped wrapper and unlocks what they share. When the wrapper goes on, it
// must not believe that it still leads, and must not take the lock again by asking. Where the system does not show the locks of a
// description, a second one asks.
func TestUnlockedByTheGuardian(t *testing.T) {
	for _, probe := range []bool{false, true} {
		steps := suite.On(t)
		dir := t.TempDir()
		d, other := openDir(t, dir), openDir(t, dir)
		g := steps.Acquire(d, claimFor("job"))
		leaseOf(t, g).probe = probe
		steps.Renew(d, g)
		unlockAsGuardian(t, g)
		steps.Lost(d, g)
		next := steps.Acquire(other, claimFor("job"))
		steps.Lost(d, g)
		steps.WantLost("Finish", d.Finish(t.Context(), g, backends.Outcome{State: backends.Lost}))
		steps.Refused(d, g.Claim, backends.Held)
		steps.Renew(other, next)
		steps.Finish(other, next)
	}
}

// A renewal that hung must leave the lease to the next one when it goes on.
func TestStepThatWasGivenUp(t *testing.T) {
	steps := suite.On(t)
	d := openDir(t, t.TempDir())
	g := steps.Acquire(d, claimFor("job"))
	l := leaseOf(t, g)
	l.mu.Lock() // as a renewal does whose disk hangs
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.Renew(ctx, g); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want outcome unknown", err)
	}
	l.mu.Unlock()
	ctx, cancel = context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	for range 100 { // in between, the first one goes on
		if _, err := d.Renew(ctx, g); err != nil {
			t.Fatalf("Renew: %v", err)
		}
	}
	steps.Finish(d, g)
}

// A daemon outlives the panic of one run: the turn and the lease must not stay locked for the next ones.
func TestDecisionThatPanics(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	panics := func(step func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		step()
	}
	rules := d.Rules
	d.Rules.Claim = func(backends.View, backends.Claim) backends.ClaimDecision { panic("claim") }
	panics(func() { _, _ = d.Acquire(t.Context(), claimFor("job")) })
	d.Rules = rules
	if f, err := d.store.paths("job").tryLock(d.store.paths("job").beat, syscall.LOCK_EX, os.O_RDWR); f == nil {
		t.Errorf("the turn is taken: %v", err)
	} else {
		flock.Unlock(f)
	}
	g := steps.Acquire(d, claimFor("job"))
	stranger := g
	stranger.Private = nil // it reads first
	d.Rules.Renew = func(backends.View, backends.Grant) backends.RenewDecision { panic("renew") }
	panics(func() { _, _ = d.Renew(t.Context(), stranger) })
	d.Rules = rules
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	if err := d.Finish(ctx, g, backends.Outcome{State: backends.Done}); err != nil {
		t.Fatalf("the next end: %v", err)
	}
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
}

// Other descriptors of the description (the guardian's, a child's that just forks) do not keep the lock.
func TestFinishUnlocksForAll(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	inherited, err := syscall.Dup(int(g.Inherit[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	steps.Finish(d, g)
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
	if err := syscall.Close(inherited); err != nil {
		t.Error(err)
	}
}

// The holder's name alone is no lease: another driver does not have the lock.
func TestSameHolderInAnotherDriver(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	steps.Refused(other, g.Claim, backends.Held)
	steps.Finish(d, g)
	steps.Refused(other, g.Claim, backends.Abandoned)
}

func TestRenewNeedsNoTurn(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	resume := stall(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), suite.Patience)
	defer cancel()
	if _, err := d.Renew(ctx, g); err != nil {
		t.Errorf("Renew while a candidate is stopped in the middle of a step: %v", err)
	}
	resume()
	steps.Finish(d, g)
}

// What cannot be written does not cost the lease: the lock is the proof.
func TestRenewSurvivesWhatCannotBeWritten(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	p := pathsIn(dir, "job")
	remove(t, p.beat)
	if err := os.Mkdir(p.beat, dirMode); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := os.WriteFile(p.record, []byte(`{"job": "jo`), fileMode); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Errorf("Renew with a damaged record: %v", err)
	}
	leaseOf(t, g).end()
}

// An operator who raises the token takes the lease away, although the lock is held.
func TestRaisedTokenIsALoss(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	p := pathsIn(dir, "job")
	r := readRecord(t, p)
	r.Token++
	if err := p.replace(r, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Renew(t.Context(), g); !errors.Is(err, backends.ErrLost) {
		t.Fatalf("Renew: %v, want ErrLost", err)
	}
	if _, err := d.Acquire(t.Context(), g.Claim); err == nil {
		t.Error("the same holder is granted again although the token was raised")
	}
	steps.Refused(openDir(t, dir), claimFor("job"), backends.Held) // its tree lives
	leaseOf(t, g).end()
}

// The hazard: one record that cannot be read is overwritten, or keeps an operator from seeing who runs all the others.
func TestDamagedRecordStopsTheJob(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	for _, job := range []string{"a", "job", "z"} {
		steps.Finish(d, steps.Acquire(d, claimFor(job)))
	}
	p := pathsIn(dir, "job")
	whole, err := os.ReadFile(p.record)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(string(whole), `"job": "job"`, `"job": "jab"`)
	for _, text := range []string{string(whole[:len(whole)/2]), "{}{}", "\x00\x00", "[]", other} {
		if err := os.WriteFile(p.record, []byte(text), fileMode); err != nil {
			t.Fatal(err)
		}
		_, err := d.Acquire(t.Context(), claimFor("job"))
		permanent, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || !strings.Contains(permanent.Error(), p.record) || permanent.Hint == "" {
			t.Errorf("record %.20q: %v, want a permanent error that names the file", text, err)
		}
		if got, err := os.ReadFile(p.record); err != nil || string(got) != text {
			t.Errorf("record %.20q was overwritten with %q (%v)", text, got, err)
		}
		if names, err := d.Jobs(t.Context()); text != other && (!backends.IsPermanent(err) || !slices.Equal(names, []string{"a", "z"})) {
			t.Errorf("record %.20q: jobs %q, %v", text, names, err)
		}
	}
}

// A crash of the machine can leave an empty record where no tick was kept: the lock file guards the token.
func TestEmptyRecordIsALostOne(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	c := claimFor("job")
	c.Floor = time.Now().Add(time.Hour).UnixMilli() // the clock alone would not do
	g := steps.Acquire(d, c)
	steps.Finish(d, g)
	if err := os.Truncate(pathsIn(dir, "job").record, 0); err != nil {
		t.Fatal(err)
	}
	if status, err := d.Inspect(t.Context(), "job"); err != nil || status.Lease != nil || status.Record.Job != "job" || status.Record.Token != 0 {
		t.Errorf("%+v, %v; want a job that nobody has run", status, err)
	}
	next := steps.Acquire(d, claimFor("job"))
	if next.Token <= g.Token {
		t.Errorf("token %d after %d", next.Token, g.Token)
	}
	steps.Finish(d, next)
}

// A process that dies between writing and renaming leaves the old record and something that nobody reads.
func TestCrashBeforeRename(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	c := claimFor("job")
	c.Tick, c.OnLost = time.Now().Unix(), backends.Skip
	g := steps.Acquire(d, c)
	p := pathsIn(dir, "job")
	if err := os.WriteFile(p.tmp, []byte(strings.Repeat("half a record", 1000)), fileMode); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Jobs(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("jobs %q, %v", names, err)
	}
	steps.Finish(d, g)
	c.Holder.ID = suite.NewID()
	steps.Refused(d, c, backends.IsDone)
	if _, err := os.Stat(p.tmp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", p.tmp, err)
	}
}

// A crash, or a disk that is full, in the middle of a grant: the lock says that the record does not tell of its last run.
func TestOwnerComesFirst(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	p := pathsIn(dir, "job")
	if err := os.MkdirAll(filepath.Join(p.tmp, "in the way"), dirMode); err != nil {
		t.Fatal(err)
	}
	c := claimFor("job")
	if _, err := d.Acquire(t.Context(), c); err == nil {
		t.Fatal("granted without a record")
	}
	cut := p.readOwnerAt(p.lock)
	if cut.Holder != c.Holder.ID || cut.Token == 0 {
		t.Errorf("the lock is %+v's", cut)
	}
	if err := os.RemoveAll(p.tmp); err != nil {
		t.Fatal(err)
	}
	g := steps.Acquire(d, claimFor("job"))
	if g.Token <= cut.Token {
		t.Errorf("token %d after %d", g.Token, cut.Token)
	}
	steps.Finish(d, g)
}
