package shards

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// A host that comes while the store never answers takes part once it answers again, although its first requests still hang.
func TestARequestThatHangs(t *testing.T) {
	inFleet(t, 3, func(t *testing.T, f *fleet) {
		a := f.join("a", func(h *node) { h.stuck = func(string, string) bool { return true } })
		time.Sleep(ttl / 2)
		a.sticks(nil)
		f.settle(3 * ttl)
	})
}

// A host that is to end does not try one free place after the other while the store does not answer, nor does it free one after the other.
func TestLeavingWhileClaimsHang(t *testing.T) {
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		inFleet(t, 1, func(t *testing.T, f *fleet) {
			f.mem.Proof = proof
			for place := range 10 {
				f.takePlace(place, 1)
			}
			a := f.join("a")
			time.Sleep(ttl / 2)
			a.sticks(func(request, _ string) bool { return request == "acquire" || request == "abandon" })
			time.Sleep(ttl) // the other places are free now, and it tries to move there
			a.leave()
			a.ended(ttl)
		})
	}
}

// A newcomer whose first look has failed looks at all places again, and sees that a host divides the job otherwise.
func TestAFirstLookThatFails(t *testing.T) {
	inFleet(t, 6, func(t *testing.T, f *fleet) {
		h := f.newNode("b")
		m := newMembers(Remember(h), "job", 5, backends.Holder{Host: "b"}, ttl, func(p position, is bool) {
			if is && p.ready {
				t.Error("it takes shards after one look")
			}
		}, nil)
		f.takePlace(0, 6)
		if err := m.claim(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.takePlace(2, 6) // so it is not in the last place
		h.Cut(true)
		time.AfterFunc(time.Millisecond, func() { h.Cut(false) })
		ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		if _, differs := errors.AsType[*Differs](m.stay(ctx)); !differs {
			t.Error("it stays")
		}
	})
}

// The hazard: a place that was not renewed in time stays for ever in a store that lives as long as this process does, as files do, and
// counts as a member that takes no shards.
func TestAPlaceThatWasNotRenewedIsGivenBack(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		given := 0
		h := f.newNode("a")
		m := newMembers(Remember(h), "job", 1, backends.Holder{Host: "a"}, ttl, func(position, bool) {}, nil)
		if err := m.claim(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		h.stuck = func(request, _ string) bool {
			if request == "finish" {
				given++
			}
			return request == "renew"
		}
		if err := m.stay(t.Context()); err != nil || given != 1 {
			t.Errorf("%v: given back %d times", err, given)
		}
	})
}

// takePlace takes a place for a member that is never heard of again.
func (f *fleet) takePlace(place, shards int) {
	f.t.Helper()
	c := backends.Claim{
		Job: slots.Name(Members("job"), place), Holder: backends.Holder{ID: backends.NewID(), Host: "x"}, TTL: ttl, Trigger: backends.Trigger{Parts: shards},
	}
	if _, err := f.mem.Acquire(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

// crowded is a store by which somebody is everywhere.
type crowded struct {
	Leases
	t *testing.T

	mu       sync.Mutex
	requests int
}

// at notes a request. It fails where that is for a place that no host can have.
func (c *crowded) at(job string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if _, _, isPlace := slots.Split(job); !isPlace {
		c.t.Errorf("%s is asked for", job)
		return backends.Misconfigured("", "it is no place")
	}
	return nil
}

func (c *crowded) Look(_ context.Context, job string) (backends.Status, error) {
	return backends.Status{Lease: &backends.Lease{Holder: "x", Token: 1}}, c.at(job)
}

func (*crowded) Limits() backends.Limits { return backends.Limits{} }

func (c *crowded) Acquire(_ context.Context, q backends.Claim) (backends.Grant, error) {
	return backends.Grant{}, cmp.Or[error](c.at(q.Job), &backends.Refusal{Verdict: backends.Held})
}

// A store that says of every place that it is taken is asked about so many, and not until memory is full.
func TestAStoreThatIsFullOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowded{t: t}
		var warned []string
		m := newMembers(Remember(c), "job", 2, backends.Holder{Host: "a"}, ttl, nil, func(text, _ string) { warned = append(warned, text) })
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if err := m.keep(ctx); err != nil || len(m.seen) > slots.Most || c.requests < 2*slots.Most {
			t.Errorf("%v, %d places, %d requests: it does not go on trying", err, len(m.seen), c.requests)
		}
		if len(warned) != 1 || !strings.Contains(warned[0], "waits for a place: more than") {
			t.Errorf("it does not say once why it waits: %q", warned)
		}
		if err := m.claimOne(t.Context(), nil); !errors.Is(err, errCrowd) {
			t.Errorf("claims: %v", err)
		}
		m.now.place = 3
		if err := m.look(t.Context(), false); !errors.Is(err, errCrowd) || m.reached != 0 {
			t.Errorf("a count: %v, %d", err, m.reached)
		}
		if all, err := Roll(t.Context(), Remember(c), "job"); !errors.Is(err, errCrowd) || len(all) != 0 {
			t.Errorf("the roll: %v, %d", err, len(all))
		}
	})
}

// A shard whose record cannot be read does not keep the others from being found.
func TestARecordThatCannotBeRead(t *testing.T) {
	inFleet(t, 100, func(t *testing.T, f *fleet) {
		f.join("a", func(h *node) { h.broken = "job#7" })
		time.Sleep(ttl)
		if n := f.counts()["a"]; n != 99 {
			t.Errorf("%d run", n)
		}
	})
}

// breaks makes the record of one place unreadable for a host, and that of no other one.
func (h *node) breaks(place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = slots.Name(Members("job"), place)
}

// A place whose record cannot be read counts as taken: the members go on as they are, and a newcomer takes the next place. Whose own
// place it is takes another one.
func TestAPlaceThatCannotBeRead(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		a := f.join("a")
		f.settle(3 * ttl)
		a.breaks(1)
		time.Sleep(6 * ttl)
		if n := f.counts()["a"]; n != 4 {
			t.Errorf("%d of its 4 shards run", n)
		}
		b := f.join("b", func(h *node) { h.broken = slots.Name(Members("job"), 1) })
		time.Sleep(6 * ttl)
		if n := f.counts(); n["b"] == 0 || n["a"] == 0 {
			t.Errorf("a newcomer: %v", n)
		}
		b.terminate()
		a.breaks(0)
		time.Sleep(6 * ttl)
		if n := f.counts()["a"]; n != 4 {
			t.Errorf("behind a place that it cannot read: %d of 4 shards run", n)
		}
		a.breaks(nowhere)
		time.Sleep(6 * ttl)
		if n := f.counts()["a"]; n != 4 {
			t.Errorf("the place is mended: %d of 4 shards run", n)
		}
		told := 0
		for _, e := range a.events {
			if e.Name == EventPlace && strings.Contains(e.Text, "counts as taken: not readable") {
				told++
			}
		}
		if told != 2 {
			t.Errorf("it was told %d times", told)
		}
	})
}

// The share of a place whose record cannot be read is run by the last member, whoever that is, until the record is mended.
func TestTheShareOfAPlaceThatCannotBeRead(t *testing.T) {
	inFleet(t, 12, func(t *testing.T, f *fleet) {
		broken := func(h *node) { h.broken = slots.Name(Members("job"), 1) }
		f.join("a", broken)
		time.Sleep(ttl)
		for _, step := range []struct {
			do   func()
			want map[string]int
		}{
			{func() { f.join("b", broken) }, map[string]int{"a": 4, "b": 8}},
			{func() { f.join("c", broken) }, map[string]int{"a": 3, "b": 3, "c": 6}},
			{func() { d := f.join("d", broken); time.Sleep(ttl); d.die() }, map[string]int{"a": 3, "b": 3, "c": 6}},
			{func() { f.nodes["c"].terminate() }, map[string]int{"a": 4, "b": 8}},
			{func() { f.nodes["a"].breaks(nowhere); f.nodes["b"].breaks(nowhere) }, map[string]int{"a": 6, "b": 6}},
		} {
			step.do()
			time.Sleep(8 * ttl)
			if got := f.counts(); !maps.Equal(got, step.want) {
				t.Errorf("%v, want %v", got, step.want)
			}
		}
	})
}
