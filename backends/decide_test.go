package backends_test

import (
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

const ttl = 15 * time.Second

// start is the first moment of every test.
var start = time.UnixMilli(1_800_000_000_000)

// store is a store in virtual time, and nothing but the decision around it.
type store struct {
	now    time.Time
	proof  backends.Proof
	record backends.Record
	holder string
	token  int64
	until  time.Time
}

func newStore() *store { return &store{now: start, proof: backends.ByUntil} }

func (s *store) view() backends.View {
	v := backends.View{Record: s.record, Now: s.now, Proof: s.proof}
	if left := s.until.Sub(s.now); s.holder != "" && left > 0 {
		v.Lease = &backends.Lease{Holder: s.holder, Token: s.token, Left: left}
	}
	return v
}

func (s *store) acquire(c backends.Claim) backends.ClaimDecision {
	d := backends.Decide(s.view(), c)
	if d.Changed {
		s.record = d.Record
	}
	if d.Grant != nil {
		s.holder, s.token, s.until = c.Holder.ID, d.Grant.Token, s.now.Add(d.Grant.TTL)
	}
	return d
}

func (s *store) renew(g backends.Grant) backends.RenewDecision {
	r := backends.DecideRenew(s.view(), g)
	if !r.Lost {
		s.record, s.until = r.Record, s.now.Add(g.TTL)
	}
	return r
}

func (s *store) finish(g backends.Grant, state backends.State) backends.EndDecision {
	return s.end(backends.DecideFinish(s.view(), g, backends.Outcome{State: state, Exit: 1}))
}

func (s *store) abandon(c backends.Claim) backends.EndDecision {
	return s.end(backends.DecideAbandon(s.view(), c))
}

func (s *store) end(e backends.EndDecision) backends.EndDecision {
	if e.Changed {
		s.record = e.Record
	}
	if e.Release {
		s.holder = ""
	}
	return e
}

func (s *store) sleep(d time.Duration) { s.now = s.now.Add(d) }
func (s *store) vanish()               { s.holder = "" }

// tick returns the n-th minute.
func tick(n int64) int64 { return start.Unix()/60*60 + 60*n }

func by(id string) backends.Claim {
	return backends.Claim{Job: "job", Holder: backends.Holder{ID: id, Host: "host " + id}, TTL: ttl}
}

func forTick(id string, n int64) backends.Claim {
	c := by(id)
	c.Tick, c.OnLost, c.MaxAttempts = tick(n), backends.Skip, 3
	return c
}

func forKey(id, key string) backends.Claim {
	c := by(id)
	c.Once, c.OnLost, c.MaxAttempts = key, backends.Skip, 3
	return c
}

func rerun(c backends.Claim) backends.Claim {
	c.OnLost = backends.Rerun
	return c
}

func within(c backends.Claim, deadline time.Duration) backends.Claim {
	c.StartDeadline = deadline
	return c
}

func on(c backends.Claim, fingerprint string) backends.Claim {
	c.Schedule = backends.Schedule{Fingerprint: fingerprint, Text: "text " + fingerprint}
	return c
}

// scene is one table test: what happens first, then a claim and its answer.
type scene struct {
	name    string
	before  func(t *testing.T, s *store)
	claim   backends.Claim
	verdict backends.Verdict // Granted by default
	tick    int64            // n of the tick that is granted, or named in the refusal
	attempt int              // 1 by default, with Granted
	holder  string           // who is named in the refusal
	first   bool
	lost    []backends.Occurrence
	check   func(t *testing.T, s *store, d backends.ClaimDecision)
}

func grant(t *testing.T, s *store, c backends.Claim) backends.Grant {
	t.Helper()
	d := s.acquire(c)
	if d.Grant == nil {
		t.Fatalf("claim of %s: %+v", c.Holder.ID, *d.Refusal)
	}
	return *d.Grant
}

// ran makes a run that ends.
func ran(t *testing.T, s *store, c backends.Claim, state backends.State) {
	t.Helper()
	if e := s.finish(grant(t, s, c), state); e.Lost || !e.Changed {
		t.Fatalf("finish: %+v", e)
	}
}

// died makes a run whose holder is never heard of again.
func died(t *testing.T, s *store, c backends.Claim) {
	t.Helper()
	grant(t, s, c)
	s.sleep(c.TTL)
}

func after(state backends.State, claims ...backends.Claim) func(*testing.T, *store) {
	return func(t *testing.T, s *store) {
		t.Helper()
		for _, c := range claims {
			ran(t, s, c, state)
		}
	}
}

func afterDeath(claims ...backends.Claim) func(*testing.T, *store) {
	return func(t *testing.T, s *store) {
		t.Helper()
		for _, c := range claims {
			died(t, s, c)
		}
	}
}

func during(c backends.Claim) func(*testing.T, *store) {
	return func(t *testing.T, s *store) { t.Helper(); grant(t, s, c) }
}

func runScenes(t *testing.T, scenes []scene) {
	t.Helper()
	for _, x := range scenes {
		t.Run(x.name, func(t *testing.T) {
			s := newStore()
			s.sleep(10 * time.Minute) // ticks 0 to 10 are due
			if x.before != nil {
				x.before(t, s)
			}
			given := s.record
			was := string(backends.Marshal(given))
			d := s.acquire(x.claim)
			switch {
			case (d.Grant == nil) == (d.Refusal == nil):
				t.Fatalf("grant %+v and refusal %+v", d.Grant, d.Refusal)
			case string(backends.Marshal(given)) != was:
				t.Errorf("the decision changes the record that it is given: %+v", given)
			case !d.Changed && string(backends.Marshal(d.Record)) != was:
				t.Errorf("a change that is not said to be one: %+v", d.Record)
			}
			wantTick := int64(0)
			if x.tick != 0 {
				wantTick = tick(x.tick)
			}
			if d.Grant != nil {
				checkGrant(t, x, d, wantTick)
			} else if r := d.Refusal; r.Verdict != x.verdict || r.First != x.first ||
				x.holder != "" && r.Holder.ID != x.holder || x.tick != 0 && r.Tick != wantTick {
				t.Errorf("refused: %+v; want %q of %q, tick %d, first %v", *r, x.verdict, x.holder, wantTick, x.first)
			}
			if x.check != nil {
				x.check(t, s, d)
			}
		})
	}
}

func checkGrant(t *testing.T, x scene, d backends.ClaimDecision, wantTick int64) {
	t.Helper()
	if x.verdict != "" {
		t.Fatalf("granted: %+v, want %s", *d.Grant, x.verdict)
	}
	if g := d.Grant; g.Tick != wantTick || g.Attempt != max(x.attempt, 1) {
		t.Errorf("granted tick %d, attempt %d; want %d, %d", g.Tick, g.Attempt, wantTick, max(x.attempt, 1))
	}
	type loss struct {
		tick  int64
		key   string
		state backends.State
	}
	var got, want []loss
	for _, o := range d.Grant.Lost {
		got = append(got, loss{o.Tick, o.Key, o.State})
	}
	for _, o := range x.lost {
		want = append(want, loss{o.Tick, o.Key, o.State})
	}
	if !slices.Equal(got, want) {
		t.Errorf("told as lost: %+v, want %+v", got, want)
	}
}

func TestLeases(t *testing.T) {
	runScenes(t, []scene{
		{name: "a free job", claim: by("a")},
		{
			name: "held", before: during(by("a")), claim: by("b"), verdict: backends.Held, holder: "a",
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if d.Refusal.Wait != ttl || d.Refusal.Token != s.token || d.Refusal.Seen != (backends.LastSeen{Token: s.token, Beat: 1}) {
					t.Errorf("%+v", *d.Refusal)
				}
				if d.Changed {
					t.Error("a refusal without news writes")
				}
			},
		},
		{name: "finished", before: after(backends.Done, by("a")), claim: by("b")},
		{name: "expired", before: afterDeath(by("a")), claim: by("b"), check: func(t *testing.T, s *store, _ backends.ClaimDecision) {
			if runs := s.record.Runs; len(runs) != 2 || runs[1].State != backends.Lost || runs[1].Ended != 0 {
				t.Errorf("history %+v", runs)
			}
		}},
		{
			name: "vanished", claim: by("b"), verdict: backends.Vanished, holder: "a",
			before: func(t *testing.T, s *store) {
				g := grant(t, s, by("a"))
				s.sleep(5 * time.Second)
				s.renew(g)
				s.sleep(4 * time.Second)
				s.vanish()
			},
			check: func(t *testing.T, _ *store, d backends.ClaimDecision) {
				if d.Refusal.Wait != ttl-4*time.Second {
					t.Errorf("wait %v, want %v since the renewal", d.Refusal.Wait, ttl-4*time.Second)
				}
			},
		},
		{
			name: "vanished, by beats, a newcomer", claim: by("b"), verdict: backends.Vanished,
			before: func(t *testing.T, s *store) {
				s.proof = backends.ByBeat
				died(t, s, by("a"))
				s.sleep(time.Hour) // no clock tells
			},
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if d.Refusal.Wait != ttl {
					t.Errorf("wait %v, want a whole TTL", d.Refusal.Wait)
				}
				c := by("b")
				c.Seen = d.Refusal.Seen
				c.Seen.For = ttl - time.Millisecond
				if d := s.acquire(c); d.Refusal == nil || d.Refusal.Wait != time.Millisecond {
					t.Errorf("%+v", d)
				}
				c.Seen.For = ttl
				old := c
				old.Seen.Beat--
				if d := s.acquire(old); d.Refusal == nil || d.Refusal.Verdict != backends.Vanished {
					t.Errorf("a beat that is not the recorded one proves: %+v", d)
				}
				old = c
				old.Seen.Token--
				if d := s.acquire(old); d.Refusal == nil || d.Refusal.Verdict != backends.Vanished {
					t.Errorf("a token that is not the recorded one proves: %+v", d)
				}
				if d := s.acquire(c); d.Grant == nil {
					t.Errorf("%+v", *d.Refusal)
				}
			},
		},
		{
			name: "vanished, the lock is the proof", claim: by("b"),
			before: func(t *testing.T, s *store) {
				s.proof = backends.ByRelease
				grant(t, s, by("a"))
				s.vanish()
			},
		},
		{
			name: "vanished, and the server's clock went back", claim: by("b"), verdict: backends.Vanished,
			before: func(t *testing.T, s *store) {
				grant(t, s, by("a"))
				s.vanish()
				s.sleep(-5 * time.Minute)
			},
			check: func(t *testing.T, s *store, d backends.ClaimDecision) {
				if d.Refusal.Wait != ttl {
					t.Errorf("wait %v, want no more than the TTL", d.Refusal.Wait)
				}
				s.sleep(ttl)
				if d := s.acquire(by("b")); d.Grant == nil {
					t.Errorf("%+v", *d.Refusal)
				}
			},
		},
		{name: "abandoned", claim: by("a"), verdict: backends.Abandoned, before: func(_ *testing.T, s *store) { s.abandon(by("a")) }},
		{name: "ended", claim: by("a"), verdict: backends.Abandoned, before: after(backends.Done, by("a"))},
		{name: "somebody else's claim was abandoned", claim: by("b"), before: func(_ *testing.T, s *store) { s.abandon(by("a")) }},
	})
}

func TestQuarantine(t *testing.T) {
	s := newStore()
	g := grant(t, s, by("a"))
	v := s.view()
	v.Quarantine = time.Second
	if d := backends.Decide(v, by("a")); d.Grant == nil || d.Grant.Token != g.Token {
		t.Errorf("the holder of a valid lease is refused: %+v", d)
	}
	if d := backends.Decide(v, by("b")); d.Refusal == nil || d.Refusal.Verdict != backends.Held {
		t.Errorf("%+v", d)
	}
	s.finish(g, backends.Done)
	v = s.view()
	v.Quarantine = time.Second
	if d := backends.Decide(v, by("b")); d.Refusal == nil || d.Refusal.Verdict != backends.Quarantined || d.Refusal.Wait != time.Second {
		t.Errorf("a release mark lifts the quarantine: %+v", d)
	}
}

func TestToken(t *testing.T) {
	s := newStore()
	g := grant(t, s, by("a"))
	if g.Token != start.UnixMilli() {
		t.Errorf("token %d, want the clock: %d", g.Token, start.UnixMilli())
	}
	s.finish(g, backends.Done)
	s.record.Break = &backends.BreakRequest{Token: g.Token}
	s.sleep(-time.Hour)
	if next := grant(t, s, by("b")); next.Token != g.Token+1 {
		t.Errorf("token %d, want one more than %d although the clock went back", next.Token, g.Token)
	}
	if s.record.Break != nil {
		t.Error("a break request outlives the run that it was for")
	}
	s = newStore()
	c := by("a")
	c.Floor = start.UnixMilli() + 1000
	if g := grant(t, s, c); g.Token != c.Floor+1 {
		t.Errorf("token %d, want one more than the floor %d", g.Token, c.Floor)
	}
	floor := start.UnixMilli() + 2000
	if d := backends.Decide(backends.View{Now: start, Proof: backends.ByRelease, Floor: floor}, by("a")); d.Grant == nil || d.Grant.Token != floor+1 {
		t.Errorf("%+v, want one more than the floor of the store %d", d, floor)
	}
}
