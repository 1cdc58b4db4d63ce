package file

import (
	"context"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

const (
	lookEvery = 500 * time.Millisecond // at the record of a job that this process runs itself
	keepFor   = 2 * time.Second        // a lock that was waited for, until somebody claims
	pauseFor  = time.Second            // after a claim that was refused although the lock was free
)

// waiter waits for the lock of one job, for all who watch it here. A blocking flock cannot be cancelled: its
// thread stays until the lock is free, and drops at once what nobody wants any more. A lock that is wanted is
// kept for the next Acquire of this driver, so that nobody else comes in between.
type waiter struct {
	paths
	d      *Driver
	kicked chan struct{} // holds one value: something has changed

	// Under d.mu.
	watching map[chan backends.News]struct{}
	wanted   bool      // somebody waits for the lock; otherwise for news in the record
	locks    *locks    // for the next Acquire
	claiming int       // how many are using it right now
	pause    time.Time // until then nobody needs the lock
	seen     os.FileInfo
}

// Watch implements backends.Watcher.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := make(chan backends.News, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return nil, os.ErrClosed
	}
	w := d.waiters[job]
	if w == nil {
		w = &waiter{paths: d.paths(job), d: d, kicked: make(chan struct{}, 1), watching: map[chan backends.News]struct{}{}}
		w.seen, _ = os.Stat(w.record)
		d.waiters[job] = w
		panics.Go(w.work)
	}
	w.watching[c] = struct{}{}
	w.wanted = w.wanted || d.held[job] == nil
	w.kick()
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, ok := w.watching[c]; ok {
			delete(w.watching, c)
			close(c)
			w.kick()
		}
	})
	return c, nil
}

// kick makes the waiter look at what has changed.
func (w *waiter) kick() {
	select {
	case w.kicked <- struct{}{}:
	default:
	}
}

// notify tells all who watch to look. Under d.mu.
func (w *waiter) notify() {
	for c := range w.watching {
		backends.Tell(c, backends.News{Look: true})
	}
}

// close ends all watches. Under d.mu.
func (w *waiter) close() {
	for c := range w.watching {
		close(c)
	}
	clear(w.watching)
	w.kick()
}

// work goes on while anybody watches.
func (w *waiter) work() {
	for {
		w.d.mu.Lock()
		if len(w.watching) == 0 {
			delete(w.d.waiters, w.job)
			unused := w.locks
			w.locks = nil
			w.d.mu.Unlock()
			if unused != nil {
				unused.unlock()
			}
			return
		}
		kept, busy := w.locks, w.claiming > 0
		wait := time.Until(w.pause)
		wanted := w.wanted && w.d.held[w.job] == nil
		w.d.mu.Unlock()
		switch {
		case kept != nil:
			w.keep(kept)
		case busy:
			<-w.kicked
		case !wanted:
			w.sleep(lookEvery)
			w.look()
		case wait > 0:
			w.sleep(wait)
		default:
			w.waitForLock()
		}
	}
}

// sleep waits until something has changed, but not longer than d.
func (w *waiter) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.kicked:
	case <-timer.C:
	}
}

// keep holds the locks for the next Acquire, and drops them if none comes.
func (w *waiter) keep(kept *locks) {
	w.sleep(keepFor)
	w.d.mu.Lock()
	unclaimed := w.locks == kept && time.Now().After(w.pause)
	if unclaimed {
		w.locks = nil
		w.pause = time.Now().Add(pauseFor)
	}
	w.d.mu.Unlock()
	if unclaimed {
		kept.unlock()
	}
}

// look tells of a record that was replaced: an operator's request, or the end of a run.
func (w *waiter) look() {
	info, err := os.Stat(w.record)
	if err != nil {
		return
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.seen == nil || !os.SameFile(info, w.seen) || !info.ModTime().Equal(w.seen.ModTime()) {
		w.seen = info
		w.notify()
	}
}

// waitForLock blocks until the locks are free.
func (w *waiter) waitForLock() {
	got, err := w.both(w.awaitLock)
	w.d.mu.Lock()
	kept := got != nil && len(w.watching) > 0
	switch {
	case kept:
		w.locks, w.pause = got, time.Now().Add(keepFor)
		w.notify()
	case err != nil:
		w.pause = time.Now().Add(pauseFor)
		w.notify()
	}
	w.d.mu.Unlock()
	if !kept && got != nil {
		got.unlock()
	}
}

// handed returns the locks that were waited for, if there are any.
func (d *Driver) handed(job string) *locks {
	d.mu.Lock()
	w := d.waiters[job]
	if w == nil {
		d.mu.Unlock()
		return nil
	}
	w.claiming++
	got := w.locks
	w.locks, w.pause = nil, time.Time{}
	d.mu.Unlock()
	if got == nil {
		return nil
	}
	if there, err := got.areAt(w.paths); !there || err != nil {
		got.unlock()
		return nil
	}
	return got
}

// claimed says that a claim has been answered, whether or not it used the lock.
func (d *Driver) claimed(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.waiters[job]; w != nil {
		w.claiming = max(w.claiming-1, 0)
		w.kick()
	}
}

// waitAfter decides what to wait for after a refusal.
func (d *Driver) waitAfter(job string, r *backends.Refusal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.waiters[job]
	switch {
	case w == nil || d.held[job] != nil:
	case r.Verdict == backends.Held:
		w.wanted = true
	default: // the lock is free, and of no use
		w.pause = time.Now().Add(max(r.Wait, pauseFor))
	}
}
