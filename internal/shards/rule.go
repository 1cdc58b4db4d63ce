package shards

import "github.com/leaderrun/leaderrun/internal/slots"

// Share is how many of n shards the member in a place has where there are so many members. The shares of all places make n, and
// differ by at most one. Where one more member comes, nobody's share grows but the newcomer's; where the last one goes, no share
// shrinks. So no shard moves that need not.
func Share(n, members, place int) int { return (n - place + members - 1) / members }

// position is what a host knows of the members.
type position struct {
	place   int  // its own, from 0
	members int  // how many there are: the last taken place, and all below
	settled int  // the fewest that there were for a while; 0: it has not been a member for so long
	ready   bool // it has been a member for long enough to know those that came together with it

	damaged []int // those of the places below its own whose records cannot be read
}

// share is how many of n shards this host has where there are so many members. The last member looks at all places below its own: it has
// the shares of those that cannot be read as well, which would be nobody's.
func (s position) share(n, members int) int {
	share := Share(n, members, s.place)
	if members == s.place+1 {
		for _, place := range s.damaged {
			share += Share(n, members, place)
		}
	}
	return share
}

// next says what a host does that has so many runs, beside some that it is ending: start so many more, or end one. A host that has
// come makes nobody end a run before it has stayed for a while. Runs are ended one at a time.
func (s position) next(n, runs, ending int) (start int, end bool) {
	if s.settled > 0 && runs > s.share(n, max(s.settled, s.place+1)) {
		return 0, ending == 0
	}
	if !s.ready {
		return 0, false
	}
	return max(s.share(n, s.members)-runs-ending, 0), false
}

// gapsFor returns those of the free places below a member's own that it may move to, the first one if it can. The last member moves to
// the first gap, the one before it to the second, and so on, all at a time: who has as many members after it as there are gaps stays.
func gapsFor(place, members int, free []int) []int { return free[min(members-1-place, len(free)):] }

// count returns how many members there are, where there were so many when this was last asked. The member in place own asks. It
// looks at the last place and at the one after that, and at others only where those have changed. With an error it returns how far it
// has come, but with errCrowd that nothing is known. Places after the last that somebody has for certain do not count.
func count(before, own int, look func(place int) (place, error)) (int, error) {
	n := max(before, own+1)
	for {
		if n >= slots.Most {
			return 0, errCrowd
		}
		p, err := look(n)
		if err != nil {
			return n, err
		}
		if !p.taken() {
			break
		}
		n++
	}
	for n > own+1 {
		p, err := look(n - 1)
		if err != nil {
			return n, err
		}
		if p.lease != nil {
			break
		}
		n--
	}
	return n, nil
}
