package bed

import (
	"slices"
	"strings"
	"time"
)

// takeover is how a run of a job that is always wanted was ended by a blow, and who began the next in its lease.
type takeover struct {
	blow Blow
	hit  *run
	next *run // nil: nobody
}

// takeovers are those that one blow alone made: nothing else went on, and nothing else struck before the next run began or
// was too late. The run was ended by the blow if it did not come to its end by itself and was silent a TTL after the blow was
// mended, or if the next one began while it still lived.
func (t *trial) takeovers() []takeover {
	var all []takeover
	for i, b := range t.Faults {
		o := takeover{blow: b, hit: t.wanted(b.Run)}
		if !b.Alone || o.hit == nil {
			continue
		}
		runs := t.runs[o.hit.lease]
		if next := slices.IndexFunc(runs, func(r *run) bool { return r.first > b.Struck && r.first > o.hit.first }); next >= 0 {
			o.next = runs[next]
		}
		if t.endedBy(o) && !t.disturbed(o, t.Faults[i+1:]) {
			all = append(all, o)
		}
	}
	return all
}

// wanted returns the run with a name, if somebody waits for its lease all the time: nobody waits for a tick before it is due,
// nor for a slot that only some hosts believe in. nil: there is none.
func (t *trial) wanted(id string) *run {
	for _, lease := range t.leasesOf(stands) {
		for _, r := range t.runs[lease] {
			if r.id == id && id != "" && (r.job != JobSlots || r.part < fewestSlots) {
				return r
			}
		}
	}
	return nil
}

func (t *trial) endedBy(o takeover) bool {
	if o.next != nil && o.next.first <= o.hit.last {
		return true
	}
	return !o.hit.over() && o.blow.Struck <= o.hit.last && o.hit.last <= o.blow.end().Add(t.TTL)
}

// disturbed says whether one of the later blows struck before the next run began, or was too late.
func (t *trial) disturbed(o takeover, later []Blow) bool {
	return slices.ContainsFunc(later, func(b Blow) bool { return b.Struck < min(t.nextBegan(o), t.latest(o)) })
}

// nextBegan is when the next run began, or the end if nobody began one.
func (t *trial) nextBegan(o takeover) instant {
	if o.next == nil {
		return t.Ended
	}
	return o.next.first
}

// latest is when the next run has to have begun.
func (t *trial) latest(o takeover) instant { return o.blow.end().Add(t.bound(o.blow.OnServer)) }

// bound is how long a take-over may take when nothing is in its way any more: generous, because it is to find who waits for
// ever, also on a machine on which all that is due is done seconds late, and how long it takes is in the report. A store that
// quarantines does so after what happened to itself.
func (t *trial) bound(onServer bool) time.Duration {
	bound := 4*t.TTL + 20*time.Second
	if strings.HasPrefix(t.Store, "consul") {
		bound += 2 * t.TTL // it ends a session after twice its TTL, and locks for two thirds of one more
	}
	if onServer {
		bound += t.Quarantine
	}
	return bound
}

// takenOver is I6: when a blow alone has ended a run of a job that is always wanted, another one begins in time in its lease,
// counted from when the blow was mended.
func takenOver(t *trial) []Violation {
	var all []Violation
	for _, o := range t.takeovers() {
		if t.nextBegan(o) <= t.latest(o) {
			continue
		}
		what, runs := "nobody ran "+o.hit.lease+" until "+t.ms(t.Ended), []*run{o.hit}
		if o.next != nil {
			what, runs = "the next run of "+o.hit.lease+" began at "+t.ms(o.next.first), append(runs, o.next)
		}
		all = append(all, t.violation(t.latest(o), runs, "%s struck %s at %s, and %s, later than %v after all was mended",
			o.blow.Fault, o.blow.Where, t.ms(o.blow.Struck), what, t.bound(o.blow.OnServer)))
	}
	return all
}

// takeoverTimes are, by fault, how long it was from a blow to the first beat of the next run.
func (t *trial) takeoverTimes() map[string]Times {
	all := map[string]Times{}
	for _, o := range t.takeovers() {
		if o.next != nil {
			all[o.blow.Fault] = all[o.blow.Fault].plus(o.next.first.Sub(o.blow.Struck))
		}
	}
	return all
}
