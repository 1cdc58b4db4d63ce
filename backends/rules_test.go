package backends_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
)

// world is a store with its clients in virtual time, and what is known about them from outside.
type world struct {
	*store
	policies []backends.Policy
	people   []*person
	ids      int
	last     int64                  // the highest token granted
	runs     map[int64][]run        // by tick: what really started
	done     map[int64]bool         // ticks whose end was recorded
	seen     map[string]observation // by candidate, for stores that prove by beats
}

// person is one holder: a wrapper at work.
type person struct {
	claim   backends.Claim
	grant   *backends.Grant
	started bool      // the command runs, or ran
	over    bool      // its tree is dead, by its own doing
	until   time.Time // when its guardian kills it
}

type run struct {
	token   int64
	attempt int
}

type observation struct {
	evidence backends.LastSeen
	since    time.Time
}

func (w *world) alive(p *person) bool { return p.started && !p.over && w.now.Before(p.until) }

// newcomer makes a claim of a new holder.
func (w *world) newcomer(t *rapid.T) *person {
	w.ids++
	c := by(fmt.Sprint("h", w.ids))
	c.TTL = rapid.SampledFrom([]time.Duration{5 * time.Second, 15 * time.Second, time.Minute}).Draw(t, "ttl")
	c.OnLost, c.MaxAttempts = rapid.SampledFrom(w.policies).Draw(t, "policy"), 3
	due := w.now.Unix() / 10 * 10
	switch rapid.IntRange(0, 5).Draw(t, "trigger") {
	case 0:
	case 1:
		c.Once = rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
	default:
		c.Tick = due + 10*rapid.Int64Range(-2, 1).Draw(t, "tick")
		c.StartDeadline = rapid.SampledFrom([]time.Duration{0, 0, 15 * time.Second}).Draw(t, "deadline")
		if fp := rapid.SampledFrom([]string{"", "A", "A", "B"}).Draw(t, "schedule"); fp != "" {
			c.Schedule = backends.Schedule{Fingerprint: fp, Text: fp}
		}
	}
	p := &person{claim: c}
	w.people = append(w.people, p)
	return p
}

// someone returns one of the holders that were heard of lately, or a new one.
func (w *world) someone(t *rapid.T) *person {
	n := min(len(w.people), 6)
	if i := rapid.IntRange(0, n).Draw(t, "who"); i < n {
		return w.people[len(w.people)-1-i]
	}
	return w.newcomer(t)
}

// ask makes one claim, and checks the answer against what is known from outside.
func (w *world) ask(t *rapid.T, p *person) {
	if p.started || p.over {
		return // a wrapper claims until it starts something, or gives up
	}
	c := p.claim
	if o, ok := w.seen[c.Holder.ID]; ok {
		c.Seen = o.evidence
		c.Seen.For = w.now.Sub(o.since)
	}
	before := w.view()
	d := w.acquire(c)
	if (d.Grant == nil) == (d.Refusal == nil) {
		t.Fatalf("grant %+v and refusal %+v", d.Grant, d.Refusal)
	}
	if !d.Changed && !sameText(t, before.Record, d.Record) {
		t.Fatal("a change that is not said to be one")
	}
	if d.Refusal != nil {
		if s := d.Refusal.Seen; s != (backends.LastSeen{}) && s != w.seen[c.Holder.ID].evidence {
			w.seen[c.Holder.ID] = observation{s, w.now}
		}
		return
	}
	g := d.Grant
	if p.grant != nil && before.Lease != nil && before.Lease.Holder == c.Holder.ID {
		if g.Token != p.grant.Token || g.Tick != p.grant.Tick || g.Attempt != p.grant.Attempt {
			t.Fatalf("asked again: %+v, want %+v", *g, *p.grant)
		}
	} else {
		if g.Token <= w.last {
			t.Fatalf("token %d after %d", g.Token, w.last)
		}
		w.last = g.Token
		for _, other := range w.people {
			if other != p && w.alive(other) {
				t.Fatalf("granted to %s while %s lives until %v, now %v", c.Holder.ID, other.claim.Holder.ID, other.until, w.now)
			}
		}
		if w.done[g.Tick] && g.Tick != 0 {
			t.Fatalf("tick %d is granted although it is done", g.Tick)
		}
	}
	p.grant, p.until = g, w.now.Add(c.TTL)
}

// exec starts the command of a holder that was granted.
func (w *world) exec(t *rapid.T, p *person) {
	if p.grant == nil || p.started || p.over || !w.now.Before(p.until) {
		return
	}
	p.started = true
	if p.grant.Tick == 0 {
		return
	}
	former := w.runs[p.grant.Tick]
	if len(former) > 0 && len(w.policies) == 1 && w.policies[0] == backends.Skip {
		t.Fatalf("tick %d starts again, with skip: %+v", p.grant.Tick, former)
	}
	if len(former) >= 3 || p.grant.Attempt > 3 || p.grant.Attempt <= len(former) {
		t.Fatalf("tick %d starts with attempt %d after %+v", p.grant.Tick, p.grant.Attempt, former)
	}
	w.runs[p.grant.Tick] = append(former, run{p.grant.Token, p.grant.Attempt})
}

func (w *world) extend(t *rapid.T, p *person) {
	if p.grant == nil || p.over {
		return
	}
	owned := w.view().Lease
	r := w.renew(*p.grant)
	if r.Lost == (owned != nil && owned.Holder == p.claim.Holder.ID && owned.Token == p.grant.Token) {
		t.Fatalf("lost: %v with the lease %+v", r.Lost, owned)
	}
	if !r.Lost && w.now.Before(p.until) { // a reply after the end of the validity counts as none
		p.until = w.now.Add(p.grant.TTL)
	}
}

// stop ends the command and records it, as often as the reply is lost.
func (w *world) stop(t *rapid.T, p *person) {
	if p.grant == nil || p.over && rapid.Bool().Draw(t, "once is enough") {
		return
	}
	state := backends.Open
	if p.started {
		state = rapid.SampledFrom([]backends.State{backends.Done, backends.Failed, backends.Stopped, backends.Lost}).Draw(t, "state")
	}
	p.over = true
	e := w.finish(*p.grant, state)
	if w.last != p.grant.Token && e.Changed {
		t.Fatalf("the end of token %d was written after %d was granted", p.grant.Token, w.last)
	}
	if w.last == p.grant.Token && e.Lost {
		t.Fatal("nobody was granted since, and the end is refused")
	}
	if e.Changed && p.grant.Tick != 0 && (state == backends.Done || state == backends.Failed) {
		w.done[p.grant.Tick] = true
	}
	if again := w.finish(*p.grant, state); again.Changed || again.Lost != e.Lost {
		t.Fatalf("asked again: %+v after %+v", again, e)
	}
}

func (w *world) giveUp(t *rapid.T, p *person) {
	if p.started {
		return
	}
	lease := w.view().Lease
	p.over = true
	e := w.abandon(p.claim)
	if e.Release && (lease == nil || lease.Holder != p.claim.Holder.ID) {
		t.Fatalf("%s releases the lease %+v", p.claim.Holder.ID, lease)
	}
	if d := w.acquire(p.claim); d.Grant != nil {
		t.Fatal("a claim is granted after it was taken back")
	}
}

// check is what holds at any time.
func (w *world) check(t *rapid.T) {
	r := w.record
	if r.Token != w.last && w.last != 0 {
		t.Fatalf("recorded token %d, granted %d", r.Token, w.last)
	}
	if len(r.Runs) > backends.KeptRuns || len(r.Once) > backends.KeptKeys ||
		len(r.Former) > backends.KeptSchedules || len(r.Refused) > backends.KeptAbandoned {
		t.Fatalf("a record of %d runs, %d keys, %d schedules, %d refused", len(r.Runs), len(r.Once), len(r.Former), len(r.Refused))
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back backends.Record
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !sameText(t, r, back) {
		t.Fatal("a record changes on its way through JSON")
	}
	w.record = back
	if alive := w.countAlive(); alive > 1 {
		t.Fatalf("%d runs at once", alive)
	}
	if r.Job == "" && string(text) != emptyRecord {
		t.Fatalf("a record without a name: %s", text)
	}
}

func (w *world) countAlive() int {
	n := 0
	for _, p := range w.people {
		if w.alive(p) {
			n++
		}
	}
	return n
}

var emptyRecord = func() string {
	text, err := json.Marshal(backends.Record{})
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// untouched runs a decision and checks that it leaves alone what it was given.
func (w *world) untouched(t *rapid.T, f func()) {
	before := w.record
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	f()
	after, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(after) {
		t.Fatalf("a decision changed the record that it was given:\n%s\n%s", text, after)
	}
}

// TestRules plays random sequences of claims, starts, renewals, ends and lost leases, and checks the promises.
func TestRules(t *testing.T) {
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		for _, policies := range [][]backends.Policy{{backends.Skip}, {backends.Rerun}, {backends.Skip, backends.Rerun}} {
			t.Run(fmt.Sprint(proof, policies), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					w := &world{
						store: newStore(), policies: policies, runs: map[int64][]run{}, done: map[int64]bool{},
						seen: map[string]observation{},
					}
					w.proof = proof
					w.play(t)
					w.recover(t)
				})
			})
		}
	}
}

func (w *world) play(t *rapid.T) {
	step := func(f func(*rapid.T, *person)) func(*rapid.T) {
		return func(t *rapid.T) {
			p := w.someone(t)
			w.untouched(t, func() { f(t, p) })
		}
	}
	ask := step(w.ask)
	t.Repeat(map[string]func(*rapid.T){
		"ask": ask, "ask2": ask, "ask3": ask, "exec": step(w.exec), "exec2": step(w.exec),
		"renew": step(w.extend), "stop": step(w.stop), "give up": step(w.giveUp),
		"lease lost": func(*rapid.T) { w.vanish() },
		"sleep": func(t *rapid.T) {
			w.sleep(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
		},
		"": func(t *rapid.T) { w.check(t) },
	})
}

// recover: when all others are silent, a healthy candidate is granted after at most two leases.
func (w *world) recover(t *rapid.T) {
	p := w.newcomer(t)
	p.claim.Once, p.claim.Schedule, p.claim.StartDeadline = "", backends.Schedule{}, 0
	for range 2*60 + 5 {
		w.sleep(time.Second)
		p.claim.Tick = w.now.Unix() + 30
		w.ask(t, p)
		if p.grant != nil {
			return
		}
	}
	t.Fatalf("never granted: %+v", w.acquire(p.claim).Refusal)
}
