package backends

import "time"

// Mark is what a store that can forget keeps about itself, beside the records, so that a claim notices when
// the store is not the one that granted the leases: restarted, emptied, failed over. Times are milliseconds
// of the server's clock.
type Mark struct {
	Identity string `json:"identity"` // which server, in which replication history; "": no mark
	Replicas int    `json:"replicas"` // the highest number of replicas ever seen
	Longest  int64  `json:"longest"`  // the longest TTL that this store allows, ms
	Until    int64  `json:"until"`    // until when the quarantine lasts
	Evicted  int64  `json:"evicted"`  // how many keys the server had evicted when the quarantine began
}

// Server is what a store says about itself at the moment of a claim.
type Server struct {
	Identity string // run id and replication id: a failover and fail-back changes the second only
	Started  int64  // when it started, ms
	Replicas int    // connected now
	Evicted  int64  // how many keys it has evicted since it started; asked only where it knows no record of the job
	Forgot   bool   // flushed, evicted or promoted since it started, or it cannot show that it was not
}

// Admit compares the mark with the server and returns the mark to keep and for how long nobody may be
// granted. hasRecord says whether the store knows the job that is claimed. Only claims call it: a renewal
// must never write the identity of a server that has not been waited for.
func (m Mark) Admit(s Server, longest time.Duration, now int64, hasRecord bool) (Mark, time.Duration) {
	next := m
	next.Longest = max(m.Longest, longest.Milliseconds())
	next.Replicas = max(m.Replicas, s.Replicas)
	switch {
	case m.Identity != s.Identity:
		// A lease that this server has forgotten was granted before it started, if it has kept everything since, and otherwise
		// before now.
		since := now
		if restarted := m.Identity != "" || !hasRecord; restarted && !s.Forgot {
			since = min(s.Started, now)
		}
		next.Identity, next.Evicted = s.Identity, s.Evicted
		next.Until = max(m.Until, since+next.Longest) // a quarantine that is on goes on, on a node that has been up for long, too
	case !hasRecord && m.Evicted != s.Evicted:
		// The job may be a new one, or its lease and record were evicted.
		next.Evicted = s.Evicted
		next.Until = now + next.Longest
	case m.Until > now && next.Longest > m.Longest:
		next.Until += next.Longest - m.Longest
	}
	if bound := now + next.Longest; next.Until > bound { // the server's clock went back
		next.Until = bound
	}
	return next, time.Duration(max(next.Until-now, 0)) * time.Millisecond
}
