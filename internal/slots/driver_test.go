package slots

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/runner"
)

func TestSplit(t *testing.T) {
	for name, want := range map[string]int{"job#0": 0, "a#1#22": 22, "job#9999": 9999} {
		job, slot, ok := Split(name)
		if !ok || slot != want || Name(job, slot) != name {
			t.Errorf("%q is taken for slot %d of %q, %v", name, slot, job, ok)
		}
	}
	for _, name := range []string{"job", "job#", "#1", "job#01", "job#+1", "job#-1", "job#1 ", "job#10000", "job#1x", ""} {
		if job, slot, ok := Split(name); ok {
			t.Errorf("%q is taken for slot %d of %q", name, slot, job)
		}
	}
}

// want compares what ran where.
func (b *bed) want(ran ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.ran, ran) {
		b.t.Errorf("%q ran, not %q", b.ran, ran)
	}
}

func TestTheSlotThatTheHostHadLastComesFirst(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		const n = 20
		for _, had := range []struct {
			slot int
			host string
		}{{0, "b"}, {7, "a"}, {13, "a"}, {4, "b"}} {
			b.free(b.take(had.slot, had.host, ttl))
			time.Sleep(time.Second)
		}
		a := b.host("a")
		a.run(n, 0, nil)
		g := b.take(13, "b", ttl)
		a.run(n, 0, nil)
		b.want("a job#13", "a job#7")
		b.free(g)
		b.host("c").run(n, 0, nil) // which never had one leaves that of others alone
		if last := b.ran[2]; last == "c job#7" || last == "c job#13" || last == "c job#4" || last == "c job#0" {
			t.Errorf("%s, and others are unused", last)
		}
	})
}

// The same where another slot may have become free meanwhile.
func TestAClaimWithoutAnAnswerIsClearedUpFirst(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		other := b.take(0, "other", time.Hour)
		a := b.host("a")
		d := New(a, "job", 2, "a", nil)
		a.Answer = func(backends.Claim, backends.Grant, error) error { return errors.New("no answer") }
		c := backends.Claim{Job: "job", Holder: backends.Holder{ID: "h", Host: "a"}, TTL: ttl}
		if _, err := d.Acquire(t.Context(), c); err == nil {
			t.Fatal("the lost answer arrived")
		}
		b.free(other)
		d.handle(&d.slots[0], backends.News{Look: true})
		d.order, a.Answer = []int{0, 1}, nil
		if g, err := d.Acquire(t.Context(), c); err != nil || g.Claim.Job != "job#1" {
			t.Errorf("granted %q, %v, and slot 1 was ours", g.Claim.Job, err)
		}
	})
}

// A claim that had no answer may arrive later, when its holder is elsewhere: it must not take a slot that nobody renews.
func TestAClaimThatArrivesLateIsRefused(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		other := b.take(0, "other", time.Minute)
		a := b.host("a")
		var late backends.Claim
		a.Answer = func(c backends.Claim, _ backends.Grant, _ error) error {
			if late.Job == "" && c.Job == "job#0" {
				late = c
				return errors.New("no answer")
			}
			return nil
		}
		d := New(a, "job", 2, "a", nil)
		c := backends.Claim{Job: "job", Holder: backends.Holder{ID: "h", Host: "a"}, TTL: ttl}
		if err := d.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.order, d.slots[0].due = []int{0, 1}, time.Time{} // as if it had been free a moment ago
		if _, err := d.Acquire(t.Context(), c); err == nil {
			t.Fatal("the lost answer arrived")
		}
		g, err := d.Acquire(t.Context(), c)
		if err != nil || g.Claim.Job != "job#1" {
			t.Fatalf("granted %q, %v", g.Claim.Job, err)
		}
		b.free(other)
		_, err = b.store.Acquire(t.Context(), late)
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != backends.Abandoned {
			t.Errorf("the late claim: %v", err)
		}
	})
}

// Whichever slot becomes free, and whenever its news arrive: a standby is there at once.
func TestStandbyTakesTheSlotThatBecomesFree(t *testing.T) {
	for slot := range 4 {
		inBed(t, func(t *testing.T, b *bed) {
			var grants []backends.Grant
			for i := range 4 {
				grants = append(grants, b.take(i, "other", time.Hour))
			}
			done := make(chan runner.Result)
			a := b.host("a")
			go func() { done <- a.run(4, 0, forever) }()
			time.Sleep(time.Minute)
			synctest.Wait()
			a.mu.Lock()
			claims := len(a.claims)
			a.mu.Unlock()
			if claims > 4 { // those of the watches that have begun to stand
				t.Errorf("%d claims in a quiet minute", claims)
			}
			freed := b.since()
			b.free(grants[slot])
			<-done
			b.want("a " + Name("job", slot))
			if took := b.since() - freed; took > time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// News that come while a claim of that slot is on its way are newer than its answer.
func TestNewsDuringAClaimCount(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		g := b.take(0, "other", time.Hour)
		a := b.host("a")
		d := New(a, "job", 1, "a", nil)
		c := backends.Claim{Job: "job", Holder: backends.Holder{ID: "h", Host: "a"}, TTL: ttl}
		if _, err := d.Acquire(t.Context(), c); err == nil {
			t.Fatal("granted")
		}
		d.slots[0].due = time.Time{}
		a.Answer = func(backends.Claim, backends.Grant, error) error {
			a.Answer = nil
			b.free(g)
			d.handle(&d.slots[0], backends.News{Look: true})
			return nil
		}
		if _, err := d.Acquire(t.Context(), c); err == nil {
			t.Fatal("granted")
		}
		if _, err := d.Acquire(t.Context(), c); err != nil {
			t.Errorf("the news were dropped: %v", err)
		}
	})
}

// Where hosts have died, a candidate waits for their slots, whether or not it waits for runs to end. Two of them get two.
func TestNobodyGivesUpSlotsOfTheDead(t *testing.T) {
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		inBed(t, func(t *testing.T, b *bed) {
			b.store.Proof = proof
			for slot := range 3 {
				b.take(slot, "dead", ttl)
			}
			b.store.DeleteLease("job#1")
			b.store.DeleteLease("job#2")
			done := make(chan runner.Result)
			for _, name := range []string{"a", "b"} {
				go func() { done <- b.host(name).run(3, time.Minute, nil) }()
			}
			for range 2 {
				if r := <-done; r.Ending != runner.Ran {
					t.Errorf("%v, %v", r.Ending, r.Refusal)
				}
			}
			if len(b.ran) != 2 || b.since() > time.Minute+2*ttl {
				t.Errorf("%q ran, and it took %v", b.ran, b.since())
			}
		})
	}
}

// Hazard: the grant of a slot came too late for the machine, which claims again and is granted another one: the first is forgotten.
func TestAGrantThatCameTooLateIsNotForgotten(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		other := b.take(0, "other", time.Hour)
		d := New(b.host("a"), "job", 2, "a", nil)
		c := backends.Claim{Job: "job", Holder: backends.Holder{ID: "h", Host: "a"}, TTL: ttl}
		first, err := d.Acquire(t.Context(), c)
		if err != nil || first.Claim.Job != "job#1" {
			t.Fatal(first.Claim.Job, err)
		}
		b.free(other) // while the process was stopped
		d.order = []int{0, 1}
		d.handle(&d.slots[0], backends.News{Look: true})
		second, err := d.Acquire(t.Context(), c)
		if err != nil || second.Claim.Job != "job#1" {
			t.Errorf("granted %q, %v", second.Claim.Job, err)
		}
		if err := d.Finish(t.Context(), second, backends.Outcome{State: backends.Done}); err != nil {
			t.Error(err)
		}
		for i := range 2 {
			if s, err := b.store.Inspect(t.Context(), Name("job", i)); err != nil && !errors.Is(err, backends.ErrUnknownJob) || s.Lease != nil {
				t.Errorf("slot %d: %+v, %v", i, s.Lease, err)
			}
		}
	})
}

// A slot whose record cannot be read counts as taken, and the others are tried. If none can be read, or a newer leaderrun has written
// one, nobody runs.
func TestASlotThatCannotBeRead(t *testing.T) {
	damaged := backends.Misconfigured("mend it", "not readable")
	for name, c := range map[string]struct {
		broken func(slot string) error
		ran    int  // of three hosts
		ends   bool // the others get the error
	}{
		"one": {func(slot string) error { return map[string]error{"job#1": damaged}[slot] }, 2, false},
		"all": {func(string) error { return damaged }, 0, true},
		"a newer": {func(slot string) error {
			return map[string]error{"job#1": backends.Misconfigured("", "%w", backends.NewerForm(2))}[slot]
		}, 0, true},
		"a denied": {func(slot string) error { return map[string]error{"job#1": backends.Denied("", errors.New("no"))}[slot] }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				for _, name := range []string{"a", "b", "c"} {
					h := b.host(name)
					h.broken = c.broken
					go func() {
						r := h.run(3, time.Minute, nil)
						_, permanent := errors.AsType[*backends.PermanentError](r.Err)
						if permanent != c.ends {
							t.Errorf("%s: %v, %v", name, r.Ending, r.Err)
						}
						h.mu.Lock()
						defer h.mu.Unlock()
						if !c.ends && !strings.Contains(h.warned, "job#1 counts as taken: not readable") {
							t.Errorf("warned: %q", h.warned)
						}
					}()
					synctest.Wait()
				}
				b.mu.Lock()
				ran := len(b.ran)
				b.mu.Unlock()
				if ran != c.ran {
					t.Errorf("%d of three run", ran)
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}
