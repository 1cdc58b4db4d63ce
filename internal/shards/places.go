package shards

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// place is what the store holds about one.
type place struct {
	lease  *backends.Lease
	holder backends.Holder
	shards int
	ttl    int64 // ms
	dead   bool  // nobody has it, and who had it last has died
	damage error // why its record cannot be read
}

// taken says whether nobody can have a place. One whose record cannot be read counts as taken.
func (p place) taken() bool { return p.lease != nil || p.damage != nil }

// fits returns an error if another member divides the job into another number of shards.
func (m *members) fits(places []place) error {
	for _, p := range places {
		if p.taken() && p.shards != 0 && p.shards != m.shards {
			return &Differs{Host: cmp.Or(p.holder.Host, "another host"), Theirs: p.shards, Ours: m.shards}
		}
	}
	return nil
}

// lookOn looks at places after those that were seen, until many in a row are free. It returns them all, and with an error those
// that it has come to, but none with errCrowd: the next look begins anew.
func lookOn(ctx context.Context, store Store, members string, seen []place) ([]place, error) {
	for len(seen) < lookers || slices.ContainsFunc(seen[len(seen)-lookers:], place.taken) {
		if len(seen) >= slots.Most {
			return nil, errCrowd
		}
		var err error
		if seen, err = lookUpTo(ctx, store, members, seen, len(seen)+lookers); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// lookUpTo looks at places after those that were seen, up to one, as lookOn does.
func lookUpTo(ctx context.Context, store Store, members string, seen []place, to int) ([]place, error) {
	for len(seen) < to {
		more, err := lookAtSome(ctx, store, members, len(seen), min(len(seen)+lookers, to))
		if err != nil {
			return seen, err
		}
		seen = append(seen, more...)
	}
	return seen, nil
}

// Member is a host that shares the shards of a job.
type Member struct {
	Place  int
	Holder backends.Holder // only its ID, if the store has lost who it is
	Shards int             // into how many it divides the job; 0: the same
	TTL    int64           // ms
}

// Roll returns who shares the shards of a job now, in the order of their places.
func Roll(ctx context.Context, store Store, job string) ([]Member, error) {
	places, err := lookOn(ctx, store, Members(job), nil)
	var all []Member
	for i, p := range places {
		if p.lease != nil {
			all = append(all, Member{i, p.holder, p.shards, p.ttl})
		}
	}
	return all, err
}

// membersAmong counts the places up to the last one that somebody has for certain.
func membersAmong(places []place) int {
	for i, p := range slices.Backward(places) {
		if p.lease != nil {
			return i + 1
		}
	}
	return 0
}

func lookAtSome(ctx context.Context, store Store, members string, from, to int) ([]place, error) {
	places := make([]place, to-from)
	err := Together(len(places), func(i int) (err error) {
		places[i], err = lookAt(ctx, store, members, from+i)
		return err
	})
	sound := func(p place) bool { return p.damage == nil }
	if err == nil && len(places) == lookers && !slices.ContainsFunc(places, sound) { // then it is not the records
		err = places[0].damage
	}
	return places, err
}

func (m *members) lookAt(ctx context.Context, i int) (place, error) {
	return lookAt(ctx, m.store, m.job, i)
}

func lookAt(ctx context.Context, store Store, members string, i int) (place, error) {
	s, err := store.Inspect(ctx, slots.Name(members, i))
	switch {
	case errors.Is(err, backends.ErrUnknownJob):
		return place{}, nil
	case backends.IsDamage(err):
		return place{damage: err}, nil
	}
	p := place{lease: s.Lease, ttl: s.Record.TTL, dead: err == nil && isDead(s)}
	switch {
	case s.Lease == nil:
	case s.Record.Holder.ID == s.Lease.Holder:
		p.holder, p.shards = s.Record.Holder, s.Record.Parts
	default:
		p.holder.ID = s.Lease.Holder
	}
	return p, err
}
