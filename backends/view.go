package backends

import (
	"encoding/json"
	"time"
)

// Label is what a lease says of itself in a store: whose it is.
type Label struct {
	Holder string `json:"holder"`
	Token  int64  `json:"token"`
}

// LabelOf returns the label of a grant's lease.
func LabelOf(g Grant) Label { return Label{Holder: g.Claim.Holder.ID, Token: g.Token} }

// ParseLabel reads a label; false: it says nothing that makes sense.
func ParseLabel(text []byte) (Label, bool) {
	var l Label
	if json.Unmarshal(text, &l) != nil || l.Holder == "" || l.Token <= 0 {
		return Label{}, false
	}
	return l, true
}

// BeatView returns the view of a store that proves a death by silence. lease says whose the lease is; nil: there is none. Such a
// store does not say for how long the lease lasts, so Left is a guess, by the clock of the holder that renewed it: a candidate only
// goes by it to ask again where its watch tells nothing. ttl is the guess if the record names no TTL.
func BeatView(r Record, lease *Label, ttl time.Duration) View {
	v := View{Record: r, Now: time.Now(), Proof: ByBeat}
	if lease == nil {
		return v
	}
	if r.TTL > 0 {
		ttl = time.Duration(r.TTL) * time.Millisecond
	}
	left := time.UnixMilli(r.Until).Sub(v.Now)
	if left <= 0 || left > ttl { // the clocks differ
		left = ttl
	}
	v.Lease = &Lease{Holder: lease.Holder, Token: lease.Token, Left: left}
	return v
}

// StatusOf returns what there is to be seen of a job. Its Wait is that of a candidate who has seen nothing of the holder.
func StatusOf(v View, job string) Status {
	s := Status{Record: v.Record, Lease: v.Lease, Now: v.Now, Notes: v.Notes}
	if s.Record.Job == "" {
		s.Record.Job = job
	}
	if v.Lease == nil {
		d := decider{Record: v.Record, v: v, now: v.Now.UnixMilli()}
		s.Wait = max(v.Quarantine, d.holderMayLive(), 0)
	}
	return s
}
