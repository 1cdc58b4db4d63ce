package file

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestWatchedLockIsHandedOver(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	woken := watch(ctx, t, other)
	awaitBlocked(t, other, "job")
	steps.Finish(d, g)
	<-woken
	if f, err := ourselves.tryLock(pathsIn(dir, "job").lock, syscall.LOCK_EX, os.O_RDWR); f != nil || err != nil {
		t.Errorf("the lock is free between wake-up and claim (%v)", err)
	}
	r := steps.Refused(d, claimFor("job"), backends.Held)
	if r.Holder != (backends.Holder{}) {
		t.Errorf("held by %+v, who has finished", r.Holder)
	}
	steps.Finish(other, steps.Acquire(other, claimFor("job")))
	cancel()
	steps.Finish(d, acquireSoon(t, d, claimFor("job")))
}

// The lock of a run that was killed is free for the process that has waited for it, also if that looks before it claims: a host of many
// that wait for a shard.
func TestWhoHasWaitedSeesAFreeJob(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	woken := watch(t.Context(), t, other)
	awaitBlocked(t, other, "job")
	unlockAsGuardian(t, g) // it is killed, and has recorded no end
	<-woken
	awaitKept(t, other, "job")
	if s, err := other.Inspect(t.Context(), "job"); s.Lease != nil || err != nil {
		t.Errorf("who has the lock sees it held: %+v, %v", s.Lease, err)
	}
	c := claimFor("job")
	c.OnLost = backends.Rerun
	steps.Finish(other, steps.Acquire(other, c))
}

// A lock that only passes through the hands of a standby must not look like a run: a claim without --wait would
// be told that the job is in good hands.
func TestPassingLockIsWaitedOut(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	for range 5 {
		steps.Finish(d, steps.Acquire(d, claimFor("job")))
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := other.Watch(ctx, "job"); err != nil {
			t.Fatal(err)
		}
		awaitKept(t, other, "job")
		time.AfterFunc(5*time.Millisecond, cancel)
		steps.Finish(d, steps.Acquire(d, claimFor("job")))
	}
}

// The lock of a job that is kept for another host is free: a standby that waited for it would have it at once, be refused, and wait
// again. What it waits for is the record.
func TestStandbyLeavesTheLockOfAReservedJob(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	from := func(host string) backends.Claim {
		c := claimFor("job")
		c.Holder.Host, c.MinHold = host, time.Hour
		return c
	}
	g := steps.Acquire(d, from("web1"))
	woken := watch(t.Context(), t, other)
	awaitBlocked(t, other, "job")
	steps.Finish(d, g)
	<-woken
	steps.Refused(other, from("web2"), backends.Reserved)
	other.store.mu.Lock()
	w := other.store.waiters["job"]
	if w.wanted || w.locks != nil {
		t.Error("it waits for a lock that is free")
	}
	other.store.mu.Unlock()
	steps.Finish(d, acquireSoon(t, d, from("web1")))
	<-woken
	steps.Refused(other, from("web2"), backends.Reserved)
}

// watch returns a watch of a job that is held, as soon as it stands.
func watch(ctx context.Context, t *testing.T, d *driver) <-chan backends.News {
	t.Helper()
	woken, err := d.Watch(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	<-woken
	return woken
}

// awaitKept waits until a driver's waiter has the lock.
func awaitKept(t *testing.T, d *driver, job string) {
	t.Helper()
	for end := time.Now().Add(suite.Patience); ; time.Sleep(time.Millisecond) {
		d.store.mu.Lock()
		w := d.store.waiters[job]
		kept := w != nil && w.locks != nil
		d.store.mu.Unlock()
		if kept {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it has not got the lock")
		}
	}
}

// awaitBlocked waits until a driver's waiter is about to ask for the lock.
func awaitBlocked(t *testing.T, d *driver, job string) {
	t.Helper()
	for range 50 {
		d.store.mu.Lock()
		w := d.store.waiters[job]
		idle := w != nil && len(w.kicked) == 0 && w.locks == nil
		d.store.mu.Unlock()
		time.Sleep(time.Millisecond)
		if idle {
			return
		}
	}
}

func TestLockThatNobodyWantsIsDropped(t *testing.T) {
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	t.Run("the watch ended while the lock was held", func(t *testing.T) {
		steps := suite.On(t)
		g := steps.Acquire(d, claimFor("job"))
		ctx, cancel := context.WithCancel(t.Context())
		watch(ctx, t, other)
		awaitBlocked(t, other, "job")
		cancel()
		steps.Finish(d, g)
		steps.Finish(d, acquireSoon(t, d, claimFor("job")))
	})
	t.Run("the watch ended after it was woken", func(t *testing.T) {
		steps := suite.On(t)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := other.Watch(ctx, "job"); err != nil {
			t.Fatal(err)
		}
		awaitKept(t, other, "job")
		cancel()
		steps.Finish(d, acquireSoon(t, d, claimFor("job")))
	})
	t.Run("nobody claims", func(t *testing.T) {
		steps := suite.On(t)
		if _, err := other.Watch(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		awaitKept(t, other, "job")
		steps.Finish(d, acquireSoon(t, d, claimFor("job")))
	})
	t.Run("the driver was closed", func(t *testing.T) {
		steps := suite.On(t)
		d, other := openDir(t, dir), openDir(t, dir)
		g := steps.Acquire(d, claimFor("job"))
		woken := watch(t.Context(), t, other)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		for range woken { // until it is closed
		}
		steps.Finish(d, g)
		steps.Finish(d, acquireSoon(t, d, claimFor("job")))
	})
}

// A standby in the process that runs the job itself (cron) is woken too, and takes nothing from others.
func TestWatchInTheHoldersProcess(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	woken := watch(t.Context(), t, d)
	p := pathsIn(dir, "job")
	r := readRecord(t, p)
	r.Break = &backends.BreakRequest{Token: g.Token}
	if err := p.replace(r, false); err != nil {
		t.Fatal(err)
	}
	<-woken // news for the holder
	signal, err := d.Renew(t.Context(), g)
	if err != nil || signal.Break == nil {
		t.Errorf("Renew: %+v, %v", signal, err)
	}
	steps.Finish(d, g)
	<-woken
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
}

// Status is looked at while jobs start: nobody may be refused because of that.
func TestInspectDoesNotDisturb(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d, other := openDir(t, dir), openDir(t, dir)
	steps.Finish(d, steps.Acquire(d, claimFor("job")))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = other.Inspect(ctx, "job")
		}
	}()
	for range 300 {
		steps.Finish(d, steps.Acquire(d, claimFor("job")))
	}
	cancel()
	<-done
}
