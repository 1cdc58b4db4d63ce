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
// kept for the next claim of this process, so that nobody else comes in between.
type waiter struct {
	paths
	s      *store
	kicked chan struct{} // holds one value: something has changed

	// Under s.mu.
	watching map[*func(backends.News)]struct{}
	wanted   bool      // somebody waits for the lock; otherwise for news in the record
	locks    *locks    // for the next claim of this process; nil: it has none
	claiming int       // how many claims are under way here
	pause    time.Time // until then locks are kept, or if there are none, nobody waits for them
	seen     os.FileInfo
}

// Follow implements backends.Store.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	s.mu.Lock()
	w := s.waiters[job]
	if w == nil {
		w = &waiter{paths: s.paths(job), s: s, kicked: make(chan struct{}, 1), watching: map[*func(backends.News)]struct{}{}}
		w.seen, _ = os.Stat(w.record)
		s.waiters[job] = w
		panics.Go(w.work)
	}
	w.watching[&tell] = struct{}{}
	w.wanted = w.wanted || s.held[job] == nil
	w.kick()
	tell(backends.News{Look: true})
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(w.watching, &tell)
	w.kick()
	return ctx.Err()
}

// kick makes the waiter look at what has changed.
func (w *waiter) kick() {
	select {
	case w.kicked <- struct{}{}:
	default:
	}
}

// notify tells all who watch to look. Under s.mu.
func (w *waiter) notify() {
	for tell := range w.watching {
		(*tell)(backends.News{Look: true})
	}
}

// work goes on while anybody watches.
func (w *waiter) work() {
	for {
		w.s.mu.Lock()
		if len(w.watching) == 0 {
			delete(w.s.waiters, w.job)
			unused := w.locks
			w.locks = nil
			w.s.mu.Unlock()
			if unused != nil {
				unused.unlock()
			}
			return
		}
		kept, busy := w.locks, w.claiming > 0
		wait := time.Until(w.pause)
		wanted := w.wanted && w.s.held[w.job] == nil
		w.s.mu.Unlock()
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
	select {
	case <-w.kicked:
	case <-time.After(d):
	}
}

// keep holds the locks for the next Acquire, and drops them if none comes.
func (w *waiter) keep(kept *locks) {
	w.sleep(keepFor)
	w.s.mu.Lock()
	unclaimed := w.locks == kept && time.Now().After(w.pause)
	if unclaimed {
		w.locks = nil
		w.pause = time.Now().Add(pauseFor)
	}
	w.s.mu.Unlock()
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
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.seen == nil || !os.SameFile(info, w.seen) || !info.ModTime().Equal(w.seen.ModTime()) {
		w.seen = info
		w.notify()
	}
}

// waitForLock blocks until the locks are free.
func (w *waiter) waitForLock() {
	got, err := w.both(w.awaitLock)
	w.s.mu.Lock()
	kept := got != nil && len(w.watching) > 0
	switch {
	case kept:
		w.locks, w.pause = got, time.Now().Add(keepFor)
		w.notify()
	case err != nil:
		w.pause = time.Now().Add(pauseFor)
		w.notify()
	}
	w.s.mu.Unlock()
	if !kept && got != nil {
		got.unlock()
	}
}

// keeps says whether this process has the locks of a job that nobody has claimed yet.
func (s *store) keeps(p paths) bool {
	s.mu.Lock()
	var kept *locks
	if w := s.waiters[p.job]; w != nil {
		kept = w.locks
	}
	s.mu.Unlock() // the disk may hang
	if kept == nil {
		return false
	}
	there, err := kept.areAt(p) // an error if they were given back meanwhile
	return there && err == nil
}

// handed returns the locks that were waited for, if there are any.
func (s *store) handed(job string) *locks {
	s.mu.Lock()
	w := s.waiters[job]
	if w == nil {
		s.mu.Unlock()
		return nil
	}
	w.claiming++
	got := w.locks
	w.locks, w.pause = nil, time.Time{}
	s.mu.Unlock()
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
func (s *store) claimed(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiters[job]; w != nil {
		w.claiming = max(w.claiming-1, 0)
		w.kick()
	}
}

// waitAfter decides what to wait for after a refusal.
func (s *store) waitAfter(job string, r *backends.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiters[job]
	switch {
	case w == nil || s.held[job] != nil:
	case r.Verdict == backends.Held:
		w.wanted = true
	case r.Verdict == backends.Reserved: // whoever waited for the lock would have it at once
		w.wanted = false
	default: // the lock is free, and of no use
		w.pause = time.Now().Add(max(r.Wait, pauseFor))
	}
}
