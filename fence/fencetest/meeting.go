package fencetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

// meeting is one interleaving: the older run stops at a step, the newer one does its work or a part of it, the older one
// goes on.
type meeting struct {
	testing.TB
	Subject

	number       int
	random       *rand.Rand
	gate         *Gate // of the older run
	older, newer Writer
	olds, news   string // what they write
	before, seen string // what was there, and what the newer one found after it had raised the fence
	oldEnd       chan error
	oldErr       error
	oldOver      bool
	blocked      int // how often the newer one waited for the older one
}

func (m *meeting) oldToken() int64 { return firstToken + int64(2*m.number) }
func (m *meeting) newToken() int64 { return m.oldToken() + 1 }

// run is one with a token.
func (m *meeting) run(token int64) fence.Run { return fence.Run{Token: token, Job: "job"} }

func (s Subject) meet(t testing.TB, i, stopAt int) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	m := &meeting{
		TB: t, Subject: s, number: i, random: rand.New(rand.NewPCG(uint64(i), 6)), gate: newGate(stopAt),
		olds: s.value("older", i), news: s.value("newer", i), before: s.Read(t), oldEnd: make(chan error, 1),
	}
	m.older = s.Writer(t, m.run(m.oldToken()), m.gate)
	m.newer = s.Writer(t, m.run(m.newToken()), nil)
	defer m.newer.close()
	defer m.older.close()
	defer m.letOlderEnd() // before it is closed

	m.standstill(ctx)
	if !m.overtake(ctx) {
		return r
	}
	m.letOlderEnd()
	if now := m.Read(m); now != m.news {
		m.fail("in the end there is %.60q, and not what the newer run wrote", now)
	}
	refused := m.judge()
	m.tryAgain(ctx)
	if refused {
		r.refused++
	}
	if m.seen == m.olds {
		r.first++
	}
	r.blocked = min(m.blocked, 1)
	return r
}

func (m *meeting) fail(format string, args ...any) {
	m.Helper()
	m.Errorf("interleaving %d, the older run stopped %s: %s", m.number, m.gate.place(), fmt.Sprintf(format, args...))
}

// standstill starts the older run, which does its work until it stands still. What anybody finds then is whole.
func (m *meeting) standstill(ctx context.Context) {
	m.Helper()
	go func() {
		err := m.older.Raise(ctx)
		if err == nil {
			err = m.older.Write(ctx, m.olds)
		}
		m.oldEnd <- err
	}()
	select {
	case <-m.gate.stopped:
	case m.oldErr = <-m.oldEnd:
		m.oldOver = true
	}
	if now := m.Read(m); now != m.before && now != m.olds && !m.Unshielded {
		m.fail("in its middle there is %.60q, which nobody wrote whole", now)
	}
}

// letOlderEnd lets the older run go on, and waits for its end.
func (m *meeting) letOlderEnd() {
	m.gate.resume()
	if !m.oldOver {
		m.oldErr, m.oldOver = <-m.oldEnd, true
	}
}

// unlessBlocked does something of the newer run. If that takes long, the older one may be in its way, and goes on.
func (m *meeting) unlessBlocked(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		m.blocked++
		m.gate.resume()
		return <-done
	}
}

// overtake does the newer run's work. The older one goes on when the newer one has raised the fence, or when it has written
// too, or when it waits.
func (m *meeting) overtake(ctx context.Context) (ok bool) {
	m.Helper()
	if err := m.unlessBlocked(func() error { return m.newer.Raise(ctx) }); err != nil {
		m.fail("the newer run cannot raise the fence: %v", err)
		return false
	}
	m.seen = m.Read(m)
	if m.seen != m.before && m.seen != m.olds {
		m.fail("the newer run finds %.60q, which nobody wrote whole", m.seen)
	}
	if m.random.IntN(2) == 0 {
		m.letOlderEnd()
		if now := m.Read(m); now != m.seen {
			m.fail("after the newer run had raised the fence and read %.60q, there is %.60q", m.seen, now)
		}
	}
	if m.random.IntN(4) == 0 { // another process of the same run
		again := m.Writer(m, m.run(m.newToken()), nil)
		err := m.unlessBlocked(func() error { return again.Raise(ctx) })
		again.close()
		if err != nil {
			m.fail("the newer run cannot raise the fence a second time: %v", err)
			return false
		}
	}
	if err := m.unlessBlocked(func() error { return m.newer.Write(ctx, m.news) }); err != nil {
		m.fail("the newer run cannot write: %v", err)
		return false
	}
	return true
}

// judge compares what the older run was told with what the newer one found.
func (m *meeting) judge() (refused bool) {
	m.Helper()
	stale, refused := refusal(m.oldErr)
	switch {
	case refused && m.seen == m.olds:
		m.fail("the older run was told that it is stale, but what it wrote was accepted")
	case refused && (stale.Token != m.oldToken() || stale.Resource == "" || stale.Highest != 0 && stale.Highest != m.newToken()):
		m.fail("the refusal is of another run: %+v", stale)
	case m.oldErr == nil && m.seen != m.olds:
		m.fail("the older run was told that its write was accepted, and the newer one never saw it")
	case m.oldErr != nil && !refused:
		m.fail("the older run ended with %v", m.oldErr)
	}
	return refused
}

// tryAgain lets the older run try once more: a refusal takes nothing back. A writer of another process of it is refused too.
func (m *meeting) tryAgain(ctx context.Context) {
	m.Helper()
	if m.random.IntN(4) != 0 {
		return
	}
	late := m.Writer(m, m.run(m.oldToken()), nil)
	defer late.close()
	m.refused("raise the fence", late.Raise(ctx))
	if m.oldErr == nil { // else it may never have got so far that it can write
		m.refused("write", m.older.Write(ctx, m.olds))
	}
	m.refused("raise the fence twice", late.Raise(ctx))
	if now := m.Read(m); now != m.news {
		m.fail("after the older run has tried again there is %.60q", now)
	}
}

// refused fails unless the older run was refused what it tried.
func (m *meeting) refused(what string, err error) {
	m.Helper()
	if err == nil {
		m.fail("after the newer run had written, the older one could %s", what)
	} else if _, ok := refusal(err); !ok {
		m.fail("the older run tries again to %s: %v", what, err)
	}
}
