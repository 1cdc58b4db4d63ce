package backends

import "time"

// Reservation keeps a job for the host that had it last, from the grant on, whether or not the run still goes on. So a
// command that fails at once does not wander through the fleet, and a short one runs once on hosts whose clocks differ. It is a
// convenience: it is no proof of anything, and no promise rests on it.
type Reservation struct {
	Host  string `json:"host"`
	Until int64  `json:"until"` // ms
	For   int64  `json:"for"`   // how long it was made for, ms
}

// reserve makes the reservation that a granted claim asks for. If it asks for none, the reservation of an earlier run ends.
func reserve(r *Record, c Claim, now int64) {
	r.Reserved = nil
	if d := c.MinHold.Milliseconds(); d > 0 {
		r.Reserved = &Reservation{Host: c.Holder.Host, Until: now + d, For: d}
	}
}

// ReservedFor says for how long only one host can be granted the job. now is by the clock of the record.
func (r *Record) ReservedFor(now time.Time) time.Duration {
	if r.Reserved == nil {
		return 0
	}
	return max(time.Duration(r.Reserved.Until-now.UnixMilli())*time.Millisecond, 0)
}

// reserved returns for how long the job is kept for another host than the claim's. If a reservation would last longer than its
// full length, the clock that made it has gone back since, or is ahead of this one. Then it begins again now, so that it ends.
func (d *decider) reserved() time.Duration {
	r := &d.Record
	if r.Reserved == nil || r.Reserved.Host == d.c.Holder.Host {
		return 0
	}
	if most := d.now + r.Reserved.For; r.Reserved.Until > most {
		r.Reserved = &Reservation{Host: r.Reserved.Host, Until: most, For: r.Reserved.For}
	}
	return r.ReservedFor(d.v.Now)
}
