package model

import (
	"cmp"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
)

// What the wrappers of a variant are for.

// works returns n wrappers that all run the same thing.
func works(n int, c candidate) []candidate { return slices.Repeat([]candidate{c}, n) }

func (c candidate) with(edit func(*candidate)) candidate {
	edit(&c)
	return c
}

var (
	plainRun = candidate{}
	skipTick = candidate{what: 1, policy: backends.Skip}
	rerun    = candidate{what: 1, policy: backends.Rerun, attempts: 2}
	onceKey  = candidate{what: theKey, policy: backends.Skip}
)

// twice lets a wrapper have two requests in flight.
func (c candidate) twice() candidate {
	c.requests = 2
	return c
}

func (c candidate) later() candidate {
	c.what = 2
	return c
}

func (c candidate) lasting(ttl moment) candidate {
	c.ttl = ttl
	return c
}

// variants returns all worlds.
func variants() []*variant {
	all := slices.Concat(
		redisVariants(), redisServerVariants(), replicaVariants(), tickVariants(), etcdVariants(), consulVariants(),
		fileVariants(), orderVariants(), postgresVariants(), standbyVariants(), kubernetesVariants(),
		zookeeperVariants(),
	)
	for _, v := range all {
		v.complete()
	}
	return all
}

// complete fills in what a variant does not say.
func (v *variant) complete() {
	v.ttl = cmp.Or(v.ttl, 3)
	v.margin = cmp.Or(v.margin, 1)
	v.horizon = cmp.Or(v.horizon, 7)
	if v.want != "" && !v.long {
		v.quick = v.horizon
	}
	if v.store == nil {
		v.store = redis{}
	}
	if v.candidates == nil {
		v.candidates = works(2, plainRun)
	}
	for i := range v.candidates {
		c := &v.candidates[i]
		c.ttl = cmp.Or(c.ttl, v.ttl)
		c.attempts = cmp.Or(c.attempts, 1)
		c.requests = cmp.Or(c.requests, 1)
		v.longest = max(v.longest, c.ttl)
	}
	v.other = cmp.Or(v.other, v.longest)
	v.decide = realDecisions()
	if v.breaks != nil {
		v.breaks(&v.decide)
	}
}
