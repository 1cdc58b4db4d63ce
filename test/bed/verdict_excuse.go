package bed

import "slices"

// excused says whether a blow excuses an overlap. One that hit a host does if
//
//   - it hit one of the two runs: it was meant for that run or its wrapper, or it was for the whole host, and the run was
//     alive between the blow and a TTL after it was mended (who was stopped between claim and start begins only then);
//   - the overlap began after it: what overlapped before has another cause;
//   - if it was mended, the overlap ended within a TTL from then: by then the guardian, which was stopped too, has had its
//     time. What is not mended (wrapper and guardian were killed) leaves nobody to end the run.
//
// One that hit the store does, whichever runs they are, if the overlap began between the blow and two TTLs after it was
// mended (a TTL that a lease was granted for too early, and one for which a newcomer watches), and ended within a TTL from
// its begin or from the mending: the older run is renewed no more once the newer one was granted.
func (t *trial) excused(o overlap) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool {
		switch {
		case !b.Excused || o.begin < b.Struck:
			return false
		case b.OnServer:
			return o.begin <= b.end().Add(2*t.TTL) && o.end <= max(o.begin, b.end()).Add(t.TTL)
		default:
			return (t.hit(b, o.older) || t.hit(b, o.newer)) &&
				(b.Mended == 0 || o.end <= b.Mended.Add(t.TTL))
		}
	})
}

// hit says whether a blow on a host hit a run.
func (t *trial) hit(b Blow, r *run) bool {
	return b.Where == r.host && (b.hitRun(r) || b.Whole && r.first <= b.end().Add(t.TTL) && b.Struck <= r.last)
}

// hitRun says whether a blow was meant for a run, or for its wrapper.
func (b Blow) hitRun(r *run) bool {
	if b.Run != "" && (b.Run == r.id || b.OneRun) {
		return b.Run == r.id
	}
	return b.Wrapper != 0 && b.Wrapper == r.wrapper && b.Where == r.host
}

// end is when a blow was mended, or had happened if there is nothing to mend.
func (b Blow) end() instant { return max(b.landed(), b.Mended) }

// landed is when a blow had happened for certain: it takes a while to fill a disk, or to break a network.
func (b Blow) landed() instant { return max(b.Struck, b.Landed) }

// mending is when a blow may have been over for the first time; 0: nothing had to be mended.
func (b Blow) mending() instant {
	if b.Mending != 0 {
		return b.Mending
	}
	return b.Mended
}

// forgot says whether the store may have lost, between two runs, what it knew of the first. A run begins as long as its
// lease is certain, which is less than a TTL after its grant.
func (t *trial) forgot(former, latter *run) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool {
		return (b.Forgets || b.Back) && former.first <= b.end().Add(t.TTL) && b.Struck <= latter.first
	})
}

// wentBack says whether the store's clock went back between two runs.
func (t *trial) wentBack(former, latter *run) bool {
	return slices.ContainsFunc(t.Faults, func(b Blow) bool { return b.Back && former.first <= b.end() && b.Struck <= latter.first })
}
