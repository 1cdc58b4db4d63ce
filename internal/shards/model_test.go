package shards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// The model has three hosts and four shards, and tries every order of what can happen: hosts come, leave, die, come again, and lose
// their places; they look, take shards and give them up; leases of the dead run out, and hosts free them for others. The hosts follow the real rule (Share,
// position.next, count, gapsFor). Two things must hold. No shard ever runs in two places. And whatever has happened: once nothing more
// happens, every shard runs, and no host has two more than another; there is always a way to that.
func TestModel(t *testing.T) {
	budgets := []budget{{comes: 3, ends: 2, losses: 1}, {comes: 4, ends: 2}}
	if testing.Short() {
		budgets = budgets[:1]
	}
	for _, b := range budgets {
		m := newModel(variant{}, b)
		m.explore(t)
		if m.found != "" {
			t.Error(m.found)
		}
		t.Logf("%+v: %d states, %d at rest", b, len(m.states), m.rests)
		if m.rests < 10 || len(m.states) < 50_000 {
			t.Error("it has not gone far")
		}
	}
}

// The model finds what would be wrong.
func TestModelFinds(t *testing.T) {
	for _, v := range []variant{
		{name: "a shard is released before it is dead", releasedEarly: true, finds: "two places"},
		{name: "the hosts are counted once", countedOnce: true, finds: "not even"},
		{name: "gaps are left", gapsLeft: true, finds: "not even"},
		{name: "the newcomer's share is not given up", kept: true, finds: "not even"},
		{name: "a shard is freed while its holder lives", freedAlive: true, finds: "two places"},
	} {
		t.Run(v.name, func(t *testing.T) {
			m := newModel(v, budget{comes: 3, ends: 2, losses: 1})
			m.explore(t)
			if !strings.Contains(m.found, v.finds) {
				t.Errorf("found: %q", m.found)
			}
		})
	}
}

const (
	modelHosts  = 3
	modelShards = 4
	none        = -1
)

// variant is a rule that is broken.
type variant struct {
	name, finds                                            string
	releasedEarly, countedOnce, gapsLeft, kept, freedAlive bool
}

// modelState is one state of the store and of all hosts.
type modelState struct {
	hosts  [modelHosts]modelHost
	places [2 * modelHosts]lease
	shards [modelShards]modelShard

	budget
}

// budget is what may still happen, and how often: hosts come, die or leave, and lose their places.
type budget struct{ comes, ends, losses int8 }

type modelHost struct {
	up      bool // false: it is not there, or leaves
	place   int8 // what it believes
	former  int8 // a place that it is about to release
	members int8 // 0: it has not looked
}

// lease is held by a host, or by a run of the past on it that died.
type lease struct {
	host int8
	dead bool
}

type modelShard struct {
	lease
	ending  bool
	freeing bool // who has the lease does not run it, and gives it back
	loose   int8 // the host on which a process runs that has no lease any more
}

type model struct {
	variant
	budget budget
	states []modelState
	ids    map[modelState]int
	before [][]int32 // states from which one comes without a fault
	rests  int
	found  string
}

func newModel(v variant, b budget) *model {
	return &model{variant: v, budget: b, ids: map[modelState]int{}}
}

func (m *model) explore(t *testing.T) {
	t.Helper()
	s := modelState{budget: m.budget}
	for i := range s.hosts {
		s.hosts[i] = modelHost{place: none, former: none}
	}
	for i := range s.places {
		s.places[i].host = none
	}
	for i := range s.shards {
		s.shards[i] = modelShard{lease: lease{host: none}, loose: none}
	}
	m.id(s)
	var rests []int32
	for i := 0; i < len(m.states) && m.found == ""; i++ {
		s := m.states[i]
		rest := true
		m.progress(s, func(next modelState) {
			m.check(next)
			if id := m.id(next); id != i {
				rest = false
				m.before[id] = append(m.before[id], int32(i)) //nolint:gosec // it fits
			}
		})
		m.faults(s, func(next modelState) { m.id(next) })
		if rest {
			rests = append(rests, int32(i)) //nolint:gosec // it fits
			if !s.even() {
				m.found = fmt.Sprintf("at rest, and not even: %+v", s)
			}
		}
	}
	m.rests = len(rests)
	if m.found == "" {
		m.settles(rests)
	}
}

// id returns the number of a state. Those that differ only in the names of hosts and shards are one.
func (m *model) id(s modelState) int {
	s = s.canonical()
	id, known := m.ids[s]
	if !known {
		id = len(m.states)
		m.ids[s] = id
		m.states = append(m.states, s)
		m.before = append(m.before, nil)
	}
	return id
}

// settles checks that from every state there is a way to rest.
func (m *model) settles(rests []int32) {
	reaches := make([]bool, len(m.states))
	for len(rests) > 0 {
		id := rests[0]
		rests = rests[1:]
		if reaches[id] {
			continue
		}
		reaches[id] = true
		rests = append(rests, m.before[id]...)
	}
	if i := slices.Index(reaches, false); i >= 0 {
		m.found = fmt.Sprintf("it never comes to rest: %+v", m.states[i])
	}
}

func (m *model) check(s modelState) {
	for _, k := range s.shards {
		if k.loose != none && k.host != none && !k.dead && !k.freeing {
			m.found = fmt.Sprintf("a shard in two places: %+v", s)
		}
	}
}

// even says whether every shard runs, and no host has two more than another.
func (s modelState) even() bool {
	var counts []int
	for h, host := range s.hosts {
		if host.up {
			counts = append(counts, s.runs(h))
		}
	}
	running := 0
	for _, n := range counts {
		running += n
	}
	return len(counts) == 0 || running == modelShards && slices.Max(counts)-slices.Min(counts) <= 1
}

// runs counts the runs of a host that are not ending.
func (s modelState) runs(h int) (n int) {
	for _, k := range s.shards {
		if k.is(h) && !k.ending && !k.freeing {
			n++
		}
	}
	return n
}

func (l lease) is(h int) bool { return int(l.host) == h && !l.dead }

// faults are what need not happen.
func (m *model) faults(s modelState, to func(modelState)) {
	for h, host := range s.hosts {
		if !host.up && s.comes > 0 && !s.leaves(h) {
			next := s
			next.comes--
			next.hosts[h].up = true
			to(next)
		}
		if !host.up {
			continue
		}
		if s.ends > 0 {
			to(s.dies(h))
			to(s.leave(h))
		}
		if s.losses > 0 && host.place != none && s.places[host.place].is(h) {
			next := s
			next.losses--
			next.places[host.place].host = none
			to(next)
		}
	}
}

// leaves says whether runs of a host that leaves are still ending.
func (s modelState) leaves(h int) bool {
	return slices.ContainsFunc(s.shards[:], func(k modelShard) bool { return k.is(h) || int(k.loose) == h })
}

func (s modelState) dies(h int) modelState {
	s.ends--
	s.hosts[h] = modelHost{place: none, former: none}
	for i := range s.places {
		if s.places[i].is(h) {
			s.places[i].dead = true
		}
	}
	for i := range s.shards {
		k := &s.shards[i]
		if k.is(h) {
			k.dead, k.ending, k.freeing = true, false, false
		}
		if int(k.loose) == h {
			k.loose = none
		}
	}
	return s
}

// leave is a SIGTERM: the place is released at once, and the runs end.
func (s modelState) leave(h int) modelState {
	s.ends--
	for i := range s.places {
		if s.places[i].is(h) {
			s.places[i].host = none
		}
	}
	s.hosts[h] = modelHost{place: none, former: none}
	for i := range s.shards {
		if k := &s.shards[i]; k.is(h) {
			k.ending, k.freeing = true, false
		}
	}
	return s
}

// progress is what must happen in the end, one thing at a time, in any order.
func (m *model) progress(s modelState, to func(modelState)) {
	for i, p := range s.places {
		if p.dead { // the lease of a dead member runs out
			next := s
			next.places[i] = lease{host: none}
			to(next)
		}
	}
	for i, k := range s.shards {
		m.frees(s, i, to)
		next := s
		switch {
		case k.dead || k.freeing:
			next.shards[i].lease, next.shards[i].freeing = lease{host: none}, false
		case k.loose != none:
			next.shards[i].loose = none
		case k.ending:
			next.shards[i].lease, next.shards[i].ending = lease{host: none}, false
		default:
			continue
		}
		to(next)
	}
	for h, host := range s.hosts {
		if !host.up {
			continue
		}
		m.keepsPlace(s, h, to)
		if host.place != none {
			m.divides(s, h, to)
		}
	}
}

// frees lets each host claim a shard whose holder is dead, to give it back for all.
func (m *model) frees(s modelState, i int, to func(modelState)) {
	k := s.shards[i]
	alive := k.host != none && !k.dead && !k.freeing
	if !k.dead && !(alive && m.freedAlive) {
		return
	}
	for h, host := range s.hosts {
		if !host.up || k.is(h) {
			continue
		}
		next := s
		next.shards[i] = modelShard{lease: lease{host: int8(h)}, freeing: true, loose: k.loose} //nolint:gosec // it fits
		if alive {
			next.shards[i].loose = k.host
		}
		to(next)
	}
}

// keepsPlace is one step of members.
func (m *model) keepsPlace(s modelState, h int, to func(modelState)) {
	host := &s.hosts[h]
	switch {
	case host.former != none: // it has moved
		if s.places[host.former].is(h) {
			s.places[host.former].host = none
		}
		host.former = none
	case host.place == none:
		i := slices.IndexFunc(s.places[:], func(l lease) bool { return l.host == none })
		s.places[i].host, host.place, host.members = int8(h), int8(i), 0 //nolint:gosec // it fits
	case !s.places[host.place].is(h): // a renewal says so
		host.place, host.members = none, 0
	default:
		m.looks(&s, h)
	}
	to(s)
}

func (m *model) looks(s *modelState, h int) {
	host := &s.hosts[h]
	own := int(host.place)
	if m.countedOnce && host.members != 0 {
		return
	}
	n, _ := count(int(host.members), own, func(i int) (p place, err error) {
		if i < len(s.places) && s.places[i].host != none {
			p.lease = new(backends.Lease)
		}
		return p, nil
	})
	host.members = int8(n) //nolint:gosec // it fits
	var free []int
	for i, l := range s.places[:own] {
		if l.host == none {
			free = append(free, i)
		}
	}
	if gaps := gapsFor(own, n, free); len(gaps) > 0 && !m.gapsLeft {
		s.places[gaps[0]].host, host.former, host.place = int8(h), host.place, int8(gaps[0]) //nolint:gosec // it fits
	}
}

// divides is one step of the balancer.
func (m *model) divides(s modelState, h int, to func(modelState)) {
	host := s.hosts[h]
	ending := 0
	for _, k := range s.shards {
		if k.is(h) && k.ending {
			ending++
		}
	}
	stands := position{place: int(host.place), members: int(host.members), settled: int(host.members), ready: host.members != 0}
	if !stands.ready {
		return
	}
	start, end := stands.next(modelShards, s.runs(h), ending)
	for i, k := range s.shards {
		next := s
		switch {
		case k.freeing:
			continue
		case end && k.is(h) && !k.ending && m.releasedEarly:
			next.shards[i] = modelShard{lease: lease{host: none}, loose: int8(h)} //nolint:gosec // it fits
		case end && k.is(h) && !k.ending && !m.kept:
			next.shards[i].ending = true
		case start > 0 && k.host == none:
			next.shards[i].host = int8(h) //nolint:gosec // it fits
		default:
			continue
		}
		to(next)
	}
}

// canonical returns the same state with hosts and shards in a fixed order.
func (s modelState) canonical() modelState {
	least := s
	for i, order := range [][modelHosts]int8{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		other := s.renamed(order)
		if i == 0 || other.compare(least) < 0 {
			least = other
		}
	}
	return least
}

func (s modelState) renamed(order [modelHosts]int8) modelState {
	to := func(h int8) int8 {
		if h == none {
			return none
		}
		return order[h]
	}
	r := s
	for h := range s.hosts {
		r.hosts[order[h]] = s.hosts[h]
	}
	for i := range r.places {
		r.places[i].host = to(s.places[i].host)
	}
	for i := range r.shards {
		r.shards[i].host, r.shards[i].loose = to(s.shards[i].host), to(s.shards[i].loose)
	}
	slices.SortFunc(r.shards[:], modelShard.compare)
	return r
}

func (s modelState) compare(t modelState) int {
	for i := range s.hosts {
		if c := s.hosts[i].compare(t.hosts[i]); c != 0 {
			return c
		}
	}
	for i := range s.places {
		if c := s.places[i].compare(t.places[i]); c != 0 {
			return c
		}
	}
	return slices.CompareFunc(s.shards[:], t.shards[:], modelShard.compare)
}

func (h modelHost) compare(o modelHost) int {
	return cmp.Or(compareBool(h.up, o.up), cmp.Compare(h.place, o.place), cmp.Compare(h.former, o.former), cmp.Compare(h.members, o.members))
}

func (l lease) compare(o lease) int {
	return cmp.Or(cmp.Compare(l.host, o.host), compareBool(l.dead, o.dead))
}

func (k modelShard) compare(o modelShard) int {
	return cmp.Or(k.lease.compare(o.lease), compareBool(k.ending, o.ending), compareBool(k.freeing, o.freeing), cmp.Compare(k.loose, o.loose))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
