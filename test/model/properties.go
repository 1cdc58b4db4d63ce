package model

import (
	"github.com/leaderrun/leaderrun/backends"
)

// The properties. Each names what must not happen.
const (
	overlap       = "two children at once"
	tokenOrder    = "a token that is not above an earlier one"
	startedTwice  = "a tick starts twice although its policy is skip"
	tooOften      = "a tick starts more often than --max-attempts"
	startedDone   = "a tick that is done starts again"
	staleFinish   = "a stale Finish is accepted"
	lostUnstarted = "a tick is lost that nobody started and whose claim was taken back"
	passedOver    = "an unfinished tick is passed over although its policy is rerun"
	neverGranted  = "a healthy candidate is not granted in time"
)

// alone says whether two children are alive.
func alone(s *state) string {
	living := 0
	for i := range s.wrappers {
		if s.wrappers[i].alive {
			living++
		}
	}
	if living > 1 {
		return overlap
	}
	return ""
}

// mayStart is asked when a child has started for a tick or key that the store had not forgotten.
func (m *model) mayStart(s *state, i int) string {
	w, c := &s.wrappers[i], &m.candidates[i]
	p := &s.past[w.what]
	p.once = p.once || c.policy == backends.Skip
	switch {
	case p.done:
		return startedDone
	case p.started > 1 && p.once:
		return startedTwice
	case int(p.started) > c.attempts:
		return tooOften
	}
	return ""
}

// stale is asked when a Finish has changed the record.
func stale(v *backends.View, h holder, t token) string {
	l := v.Lease
	if v.Record.Token > t.real() || l != nil && (l.Holder != number(h) || l.Token != t.real()) {
		return staleFinish
	}
	return ""
}

// passesOver is asked when a claim was decided: a recorded tick that is to run again is not left behind.
func passesOver(v *backends.View, c *backends.Claim, d *backends.ClaimDecision) string {
	was := &v.Record.Tick
	unfinished := was.State == backends.Claimed || was.State == backends.Lost || was.State == backends.Stopped
	again := was.Policy == backends.Rerun && c.OnLost == backends.Rerun && was.Attempt < was.MaxAttempts
	if unfinished && again && d.Record.Tick.Tick > was.Tick {
		return passedOver
	}
	return ""
}

// mayBeLost is asked when a claim is answered with a loss: where nobody started the tick or key, and its claimant asks
// itself, or has taken its claim back, nothing was lost.
func (m *model) mayBeLost(s *state, i int, was *backends.Record) string {
	what := m.candidates[i].what
	if what == 0 || s.past[what].started > 0 || m.idle {
		return ""
	}
	o := recorded(was, what)
	claimant := named(o.Claimant.ID)
	switch {
	case claimant == 0 || claimant > maxWrappers:
		return ""
	case claimant == holder(i+1) && o.State == backends.Claimed,
		s.wrappers[claimant-1].end == takenBack, s.wrappers[claimant-1].end == silent:
		return lostUnstarted
	}
	return ""
}

// recorded returns what a record says of a tick or key.
func recorded(r *backends.Record, what trigger) backends.Occurrence {
	if what != theKey && r.Tick.Tick == what.tick() {
		return r.Tick
	}
	for i := range r.Once {
		if what == theKey && r.Once[i].Key == key {
			return r.Once[i]
		}
	}
	return backends.Occurrence{}
}

// A store that has lost its record has forgotten what was run. What it forgot may be run again, once, and that run is
// not counted. But from the moment at which a step of the holder is answered the store must know its tick or key again.

// forget notes that a record was lost.
func (s *state) forget() {
	for what := range s.past {
		s.past[what].amnesia = true
	}
}

// recall notes that the store has answered a step of a run, which tells it what is run.
func (s *state) recall(what trigger) { s.past[what].amnesia = false }

// excuse notes that a wrapper is granted what the store has forgotten.
func (s *state) excuse(i int, what trigger) {
	if s.past[what].amnesia {
		s.wrappers[i].amnesiac = true
		s.past[what].amnesia = false
	}
}
