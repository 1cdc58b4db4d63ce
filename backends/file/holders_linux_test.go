package file

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/test/suite"
)

func held(t *testing.T, d *driver) backends.Status {
	t.Helper()
	status, err := d.Inspect(t.Context(), "job")
	if err != nil || status.Lease == nil {
		t.Fatalf("Inspect: %+v, %v; want a lease", status.Lease, err)
	}
	return status
}

func wantHolders(t *testing.T, d *driver, want ...int) {
	t.Helper()
	slices.Sort(want)
	got, err := d.store.holders("job")
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("Holders: %v, %v; want %v", got, err, want)
	}
}

// awaitHolders is wantHolders in a moment: a descriptor is in more of them for the moment in which
// one starts another.
func awaitHolders(t *testing.T, d *driver, want ...int) {
	t.Helper()
	slices.Sort(want)
	for end := time.Now().Add(suite.Patience); ; time.Sleep(time.Millisecond) {
		got, err := d.store.holders("job")
		if err == nil && slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Holders: %v, %v; want %v", got, err, want)
		}
	}
}

// The holder is on this machine: an operator who has to end a run is told its processes, all of them, also when the
// wrapper is gone, and nobody who only waits. When they are gone, the job is free.
func TestHoldersAreEnded(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	wantHolders(t, d)
	h := start(t, "hold with child", dir)
	child, err := strconv.Atoi(h.says(t, "held"))
	if err != nil {
		t.Fatal(err)
	}
	standby := start(t, "stand by", dir)
	standby.says(t, "watching")
	watch(t.Context(), t, d) // this process waits too
	awaitBlocked(t, d, "job")
	awaitHolders(t, d, h.Process.Pid, child)

	token := held(t, d).Record.Token
	for _, kind := range []backends.OrderKind{backends.Revoke, backends.ForceRelease} {
		err := d.Order(t.Context(), orderFor(kind, token))
		if p, ok := errors.AsType[*backends.PermanentError](err); !ok || !strings.Contains(p.Hint, pathsIn(dir, "job").lock) {
			t.Errorf("%s: %v, want a *PermanentError that names the lock", kind, err)
		}
	}
	standby.kill()
	h.kill()
	awaitHolders(t, d, child)
	if err := d.Order(t.Context(), orderFor(backends.Revoke, token)); err == nil {
		t.Error("revoked, and the child lives")
	}
	p, err := os.FindProcess(child)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	g := acquireSoon(t, d, claimFor("job"))
	if g.Token <= token {
		t.Errorf("token %d after %d", g.Token, token)
	}
	steps.Finish(d, g)
}

// A standby gets the lock in the moment in which a run crashes. Whoever ends the processes of the run must not end it.
func TestHoldersAreNoStandbys(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	h := start(t, "hold", dir)
	h.says(t, "held")
	h.kill()
	f, err := ourselves.tryLock(pathsIn(dir, "job").lock, syscall.LOCK_EX, os.O_RDWR) // as a waiter does
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	if r := held(t, d).Record; r.Free() {
		t.Fatal("the run has ended by itself")
	}
	wantHolders(t, d)
	flock.Unlock(f)
	g := steps.Acquire(d, claimFor("job"))
	wantHolders(t, d, os.Getpid())
	steps.Finish(d, g)
	wantHolders(t, d)
}

// A record that was lost does not say whom the lock was granted to.
func TestHoldersWithoutRecord(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	remove(t, pathsIn(dir, "job").record)
	wantHolders(t, d, os.Getpid())
	steps.Finish(d, g)
}
