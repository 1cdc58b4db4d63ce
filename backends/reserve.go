package backends

import "time"

// Reservation keeps a job for the host that had it last, from the start of its run on, whether or not that still goes on: so a
// command that fails at once does not wander through the fleet, and a short one runs once on hosts whose clocks differ. It
// keeps nobody from dying, and proves nothing.
type Reservation struct {
	Host  string `json:"host"`
	Until int64  `json:"until"` // ms
	For   int64  `json:"for"`   // how long it was made for, ms
}

// reserve makes the reservation that a claim asks for when it is granted. Without one, that of an earlier run is over.
func reserve(r *Record, c Claim, now int64) {
	r.Reserved = nil
	if d := c.MinHold.Milliseconds(); d > 0 {
		r.Reserved = &Reservation{Host: c.Holder.Host, Until: now + d, For: d}
	}
}

// ReservedFor says for how long nobody but one host is granted the job that a record is of. now is in the record's clock.
func (r *Record) ReservedFor(now time.Time) time.Duration {
	if r.Reserved == nil {
		return 0
	}
	return max(time.Duration(r.Reserved.Until-now.UnixMilli())*time.Millisecond, 0)
}

// reserved returns for how long the job is kept for another host than the claim's. A reservation that would last for longer than
// it was made for was made by a clock that has gone back since, or is ahead of this one: it is made anew, so that it ends.
func (d *decider) reserved() time.Duration {
	r := &d.Record
	if r.Reserved == nil || r.Reserved.Host == d.c.Holder.Host {
		return 0
	}
	if most := d.now + r.Reserved.For; r.Reserved.Until > most {
		r.Reserved, d.changed = &Reservation{Host: r.Reserved.Host, Until: most, For: r.Reserved.For}, true
	}
	return r.ReservedFor(d.v.Now)
}
