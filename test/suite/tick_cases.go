package suite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

func (s *scene) wantRun(g backends.Grant, tick int64, attempt int) {
	s.Helper()
	if g.Tick != tick || g.Attempt != attempt {
		s.Errorf("granted tick %d, attempt %d; want %d, %d", g.Tick, g.Attempt, tick, attempt)
	}
}

// What is decided of ticks and keys that came to an end is played against the decision; here is what becomes of those whose holder
// vanished.

func tickOnce(s *scene) {
	d, other := s.open(), s.open()
	c := withTick(s.brief(), s.tick(1))
	s.expire(s.granted(d, c))
	for i, first := range []bool{true, false} {
		_, r := s.settled(other, withTick(s.claim(), s.tick(1)))
		if r == nil || r.Verdict != backends.IsLost || r.Holder != c.Holder || r.First != first {
			s.Fatalf("claim %d for a tick whose holder vanished: %+v, want lost, first: %v", i+1, r, first)
		}
	}
}

func tickRerun(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withRerun(s.brief(), s.tick(2)))
	s.wantRun(g, s.tick(2), 1)

	s.expire(g)
	next := s.after(other, withRerun(s.claim(), s.tick(2)))
	s.wantRun(next, s.tick(2), 2)
	if next.Token <= g.Token {
		s.Errorf("token %d after %d", next.Token, g.Token)
	}
	s.Finish(other, next)
	s.refusal(d, withRerun(s.claim(), s.tick(2)), backends.IsDone)
}

func tickForward(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, withTick(s.claim(), s.tick(5)))
	s.refusal(other, withTick(s.claim(), s.tick(7)), backends.Held)
	s.Finish(d, g)
	s.refusal(other, withTick(s.claim(), s.tick(4)), backends.IsEarlier)
	s.refusal(other, withTick(s.claim(), time.Now().Unix()+3600), backends.Future)

	g = s.granted(other, withTick(s.brief(), s.tick(8)))
	if want := []backends.Occurrence{{Tick: s.tick(7), State: backends.Missed}}; !slices.Equal(g.Lost, want) {
		s.Errorf("told as lost: %+v, want the tick that passed meanwhile: %+v", g.Lost, want)
	}
	s.expire(g)
	next := s.after(d, withTick(s.claim(), s.tick(9)))
	if len(next.Lost) != 1 || next.Lost[0].Tick != s.tick(8) || next.Lost[0].State != backends.Lost {
		s.Errorf("told as lost: %+v, want tick %d lost", next.Lost, s.tick(8))
	}
	s.Finish(d, next)
	s.refusal(other, withTick(s.claim(), s.tick(7)), backends.IsMissed)
	s.refusal(other, withTick(s.claim(), s.tick(8)), backends.IsLost)
}

func onceKey(s *scene) {
	d, other := s.open(), s.open()
	once := func(key string, policy backends.Policy) backends.Claim {
		c := s.claim()
		c.Once, c.OnLost, c.MaxAttempts = key, policy, 3
		return c
	}
	for i, key := range []string{"v1.2", "release {}|\n%/..", "ä", "V1.2"} {
		g := s.granted(d, once(key, backends.Skip))
		s.wantRun(g, 0, 1)
		s.FinishAs(d, g, backends.Outcome{State: backends.Open})
		g = s.granted(other, once(key, backends.Skip))
		s.wantRun(g, 0, 1)
		s.Finish(other, g)
		if r := s.refusal(d, once(key, backends.Rerun), backends.IsDone); r.Holder != g.Claim.Holder {
			s.Errorf("key %q: done by %+v, want %+v", key, r.Holder, g.Claim.Holder)
		}
		if kept := s.inspect(d, s.job).Record.Once; len(kept) != i+1 || kept[0].Key != key || kept[0].State != backends.Done {
			s.Errorf("recorded %+v, want %q done at the head of %d", kept, key, i+1)
		}
	}
	g := s.granted(d, once("again", backends.Rerun))
	s.FinishAs(d, g, backends.Outcome{State: backends.Lost})
	s.refusal(other, once("again", backends.Skip), backends.IsLost)
	g = s.granted(other, once("again", backends.Rerun))
	s.wantRun(g, 0, 2)
	s.Finish(other, g)
	s.refusal(d, once("v1.2", backends.Skip), backends.IsDone)
}

// seedOfPlays is where the random steps come from; 0: from the time.
var seedOfPlays uint64

// agreesWithDecision plays the same random steps against the store and against the decision itself, and
// compares every answer and every record.
func agreesWithDecision(s *scene) {
	seed := seedOfPlays
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	s.Logf("seed %d", seed)
	p := &play{
		scene: s, random: rand.New(rand.NewPCG(seed, 0)),
		store: s.open(), model: NewMem(nil),
		ranks: [2]map[int64]int64{{0: 0}, {0: 0}}, beats: [2]map[int64]int64{{}, {}},
	}
	s.Finish(p.store, s.granted(p.store, s.otherJob())) // no quarantine from here on
	for range s.h.times(600) {
		p.step()
		if s.Failed() {
			s.Fatalf("the steps were:\n%s", p.log)
		}
	}
}

// play is a random sequence of steps on a store and on a model of it.
type play struct {
	*scene
	random       *rand.Rand
	store, model backends.Backend
	slots        [3]attempt
	latest       int64              // the tick that is due, as n of scene.tick
	ranks        [2]map[int64]int64 // token → its place among the tokens granted, of store and model
	beats        [2]map[int64]int64 // beat → its place among those seen: what counts is that another one is there
	log          string
}

// attempt is one holder at work; the zero value is none.
type attempt struct {
	claim  backends.Claim
	grants [2]backends.Grant // of store and model; no token: not granted
}

func (p *play) step() {
	a := &p.slots[p.random.IntN(len(p.slots))]
	if a.claim.Job == "" {
		*a = attempt{claim: p.randomClaim()}
	}
	if p.log != "" && p.random.IntN(8) == 0 { // there is a record
		p.order(a)
		return
	}
	granted := a.grants[0].Token != 0
	switch roll := p.random.IntN(10); {
	case roll < 4 && granted:
		o := backends.Outcome{State: pick(p.random,
			backends.Done, backends.Failed, backends.Stopped, backends.Lost, backends.Lost, backends.Lost, backends.Open)}
		p.compare("finish "+string(o.State), a, func(i int, d backends.Backend) any {
			return fmt.Sprint(d.Finish(p.Context(), a.grants[i], o))
		})
		if p.random.IntN(3) > 0 {
			*a = attempt{}
		}
	case roll < 6 && granted:
		p.compare("renew", a, func(i int, d backends.Backend) any {
			_, err := d.Renew(p.Context(), a.grants[i])
			return fmt.Sprint(err)
		})
	case roll == 9:
		p.compare("abandon", a, func(_ int, d backends.Backend) any { return fmt.Sprint(d.Abandon(p.Context(), a.claim)) })
		if p.random.IntN(3) > 0 {
			*a = attempt{}
		}
	default:
		p.compare("acquire", a, func(i int, d backends.Backend) any {
			g, refusal := p.ask(d, a.claim)
			if refusal != nil {
				return []any{refusal.Verdict, refusal.Holder.ID, refusal.Tick, refusal.Text, refusal.First, refusal.Parts, p.rank(i, refusal.Token)}
			}
			a.grants[i] = g
			if _, ok := p.ranks[i][g.Token]; !ok {
				p.ranks[i][g.Token] = int64(len(p.ranks[i]))
			}
			return []any{p.rank(i, g.Token), g.Tick, g.Attempt, g.Lost, g.Notes}
		})
		if a.grants[0].Token == 0 && p.random.IntN(2) == 0 {
			*a = attempt{}
		}
	}
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (p *play) randomClaim() backends.Claim {
	c := p.claim()
	switch p.random.IntN(6) {
	case 0:
	case 1:
		c.Once = pick(p.random, "a", "b")
	default:
		p.latest += pick(p.random, int64(0), 0, 0, 1)
		c.Tick = p.tick(p.latest + pick(p.random, int64(-1), 0, 0, 0, 1))
	}
	c.OnLost = pick(p.random, backends.Skip, backends.Rerun, backends.Rerun)
	c.MaxAttempts = 1 + p.random.IntN(4)
	c.Parts = pick(p.random, 0, 0, 0, 2, 3)
	if c.Tick != 0 {
		c.StartDeadline = pick(p.random, 0, 0, 0, 0, time.Minute, 1000*time.Hour)
		if fp := pick(p.random, "", "", "1", "1", "1", "1", "1", "2"); fp != "" {
			c.Schedule = backends.Schedule{Fingerprint: fp, Text: "text " + fp}
		}
	}
	return c
}

// compare takes one step in both worlds.
func (p *play) compare(name string, a *attempt, do func(i int, d backends.Backend) any) {
	p.Helper()
	p.log += fmt.Sprintf("%s by %.4s: tick %d, key %q, %s, max %d, deadline %v, schedule %q\n", name, a.claim.Holder.ID,
		a.claim.Tick, a.claim.Once, a.claim.OnLost, a.claim.MaxAttempts, a.claim.StartDeadline, a.claim.Schedule.Fingerprint)
	got, want := p.text(do(0, p.store)), p.text(do(1, p.model))
	if got != want {
		p.Errorf("%s: the store answers\n%s\nthe decision\n%s", name, got, want)
	}
	got, want = p.plain(0, p.inspect(p.store, p.job)), p.plain(1, p.inspect(p.model, p.job))
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("%s: the record differs (-decision +store):\n%s", name, diff)
	}
}

func (p *play) rank(i int, token int64) int64 {
	if place, ok := p.ranks[i][token]; ok {
		return place
	}
	return -1
}

// plain is a status without what may differ: clocks, and tokens beyond their order.
func (p *play) plain(i int, status backends.Status) string {
	p.Helper()
	r := status.Record
	for _, t := range []*int64{&r.Token, &r.Released} {
		*t = p.rank(i, *t)
	}
	if _, ok := p.beats[i][r.Beat]; !ok && r.Beat != 0 {
		p.beats[i][r.Beat] = int64(1 + len(p.beats[i]))
	}
	r.Beat = p.beats[i][r.Beat]
	for _, t := range []*int64{&r.Granted, &r.Until, &r.Ended, &r.Schedule.At} {
		*t = min(*t, 1)
	}
	for k := range r.Runs {
		run := &r.Runs[k]
		run.Token = p.rank(i, run.Token)
		run.Started, run.Ended = min(run.Started, 1), min(run.Ended, 1)
	}
	for k := range r.Former {
		r.Former[k].At = min(r.Former[k].At, 1)
	}
	if r.Break != nil {
		r.Break.Token, r.Break.At = p.rank(i, r.Break.Token), min(r.Break.At, 1)
	}
	holder := "nobody"
	if status.Lease != nil {
		holder = fmt.Sprint(status.Lease.Holder, p.rank(i, status.Lease.Token))
	}
	return p.text(r) + "\n" + holder
}
