package servers

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// member is a server of a set that elects one of its members.
type member[M any] interface {
	comparable
	variant
	base() *server
	configure(t testing.TB, all []M)           // tells it who the members are: itself alone, perhaps
	follows() (self, leader string, err error) // the names of itself and of the member that leads
}

// Set is a cluster, a datacenter or an ensemble.
type Set[M member[M]] struct {
	Members []M
}

// newSet starts members that differ, in their addresses perhaps.
func newSet[M member[M], O any](t testing.TB, prepare func(t testing.TB, o O) M, options []O) *Set[M] {
	t.Helper()
	s := &Set[M]{}
	for i, o := range options {
		m := prepare(t, o)
		m.base().Name = fmt.Sprintf("m%d", i)
		s.Members = append(s.Members, m)
	}
	for _, m := range s.Members {
		m.configure(t, s.Members)
	}
	tellAll(t, len(s.Members), func(i int) (string, *Process) { b := s.Members[i].base(); return b.Name, b.Process })
	s.start(t)
	return s
}

// alone starts the only member of a set.
func alone[M member[M]](t testing.TB, m M) M {
	t.Helper()
	m.configure(t, []M{m})
	m.base().start(t)
	return m
}

func (s *Set[M]) start(t testing.TB) {
	t.Helper()
	for _, m := range s.Members {
		m.run(t)
	}
	for _, m := range s.Members {
		m.await(t)
	}
	s.Agreed(t)
}

// Restart kills all members and starts them again, with their data or without.
func (s *Set[M]) Restart(t testing.TB, keepData bool) {
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

// URL returns a backend URL that names all members, without credentials.
func (s *Set[M]) URL() string {
	var addrs []string
	for _, m := range s.Members {
		addrs = append(addrs, m.base().Addr())
	}
	first := s.Members[0].base()
	return first.place.url(first.kind.scheme, addrs...)
}

// Leader returns the member that most members follow, as soon as there is one.
func (s *Set[M]) Leader(t testing.TB) M {
	t.Helper()
	var nobody M
	return s.Changed(t, nobody)
}

// leader asks all members at once for their own name and for that of the leader they follow. It returns the member that
// more than half of all name, or nobody, and whether all do.
func (s *Set[M]) leader() (leader M, all bool) {
	n := len(s.Members)
	selves, leaders := make([]string, n), make([]string, n)
	var asked sync.WaitGroup
	for i, m := range s.Members {
		asked.Go(func() {
			if self, leader, err := m.follows(); err == nil {
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
			return s.Members[i], votes == n
		}
	}
	return leader, false
}

// Agreed waits until all members follow one leader, and returns it.
func (s *Set[M]) Agreed(t testing.TB) M {
	t.Helper()
	var now M
	Eventually(t, "all members follow one leader", func() (all bool) {
		now, all = s.leader()
		return all
	})
	return now
}

// Whole asks whether all members follow one leader.
func (s *Set[M]) Whole() error {
	if _, all := s.leader(); !all {
		return errors.New("not all members follow one leader")
	}
	return nil
}

// Changed waits until most members follow another leader than old, who takes what is written, and returns it.
func (s *Set[M]) Changed(t testing.TB, old M) M {
	t.Helper()
	var now, nobody M
	Eventually(t, "a leader, and another one", func() bool {
		now, _ = s.leader()
		return now != nobody && now != old
	})
	now.await(t)
	return now
}
