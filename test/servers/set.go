package servers

import (
	"errors"
	"sync"
	"testing"
)

// member is a server of a set that elects one of its members.
type member interface {
	comparable
	process() (name string, p *Process)
	Kill()
	run(t testing.TB)
	await(t testing.TB)
	wipe(t testing.TB)
	follows() (self, leader string, err error) // the names of itself and of the member that leads
}

// set is what the sets of all stores have in common.
type set[M member] struct {
	Members []M
	settle  func(t testing.TB) // what is left to do when all members answer; nil: nothing
}

// begin starts members that were configured.
func (s *set[M]) begin(t testing.TB) {
	t.Helper()
	tellAll(t, len(s.Members), func(i int) (string, *Process) { return s.Members[i].process() })
	s.start(t)
}

func (s *set[M]) start(t testing.TB) {
	t.Helper()
	for _, m := range s.Members {
		m.run(t)
	}
	for _, m := range s.Members {
		m.await(t)
	}
	if s.settle != nil {
		s.settle(t)
	}
	s.Agreed(t)
}

// Restart kills all members and starts them again, with their data or without.
func (s *set[M]) Restart(t testing.TB, keepData bool) {
	t.Helper()
	for _, m := range s.Members {
		m.Kill()
	}
	for _, m := range s.Members {
		if !keepData {
			m.wipe(t)
		}
	}
	s.start(t)
}

// Leader returns the member that most members follow, as soon as there is one.
func (s *set[M]) Leader(t testing.TB) M {
	t.Helper()
	var nobody M
	return s.Changed(t, nobody)
}

func (s *set[M]) leader() (leader M, all bool) {
	i, all := leaderOf(len(s.Members), func(i int) (string, string, error) { return s.Members[i].follows() })
	if i < 0 {
		return leader, false
	}
	return s.Members[i], all
}

// Agreed waits until all members follow one leader, and returns it.
func (s *set[M]) Agreed(t testing.TB) M {
	t.Helper()
	var now M
	Eventually(t, "all members follow one leader", func() (all bool) {
		now, all = s.leader()
		return all
	})
	return now
}

// Whole asks whether all members follow one leader.
func (s *set[M]) Whole() error {
	if _, all := s.leader(); !all {
		return errors.New("not all members follow one leader")
	}
	return nil
}

// Changed waits until most members follow another leader than old, who takes what is written, and returns it.
func (s *set[M]) Changed(t testing.TB, old M) M {
	t.Helper()
	var now, nobody M
	Eventually(t, "a leader, and another one", func() bool {
		now, _ = s.leader()
		return now != nobody && now != old
	})
	now.await(t)
	return now
}

// leaderOf asks n members at once for their own name and for that of the leader they follow. It returns the
// number of the member that more than half of all name, or -1, and whether all n do.
func leaderOf(n int, status func(i int) (self, leader string, err error)) (int, bool) {
	selves, leaders := make([]string, n), make([]string, n)
	var asked sync.WaitGroup
	for i := range n {
		asked.Go(func() {
			if self, leader, err := status(i); err == nil {
				selves[i], leaders[i] = self, leader
			}
		})
	}
	asked.Wait()
	for i, self := range selves {
		votes := 0
		for _, leader := range leaders {
			if self != "" && leader == self {
				votes++
			}
		}
		if 2*votes > n {
			return i, votes == n
		}
	}
	return -1, false
}
