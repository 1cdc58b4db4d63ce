package model

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// store is what differs between the kinds of stores: what a decision sees, and what becomes of the lease.
type store interface {
	// view is what the store shows. What a claim alone writes, the mark, is written where that is one step with it.
	view(m *model, s *state, at int, l look) backends.View
	// floor is the highest token that the store knows beside the record.
	floor(k *kept) token
	// take gives the lease to the holder of a grant, extend extends it, free removes it.
	take(k *kept, l label, now moment)
	extend(k *kept, l label, now moment)
	free(k *kept)
	// pass lets time do what it does alone: it ends leases.
	pass(k *kept, now moment)
	// foreign says that the driver takes a renewal for one of somebody else before it is decided.
	foreign(m *model, k *kept, l label) bool
	// counted says whether a step that was just made counts already. wrote: it changed something.
	counted(m *model, s *state, at int, wrote bool) acked
	// events are what may happen at the store alone.
	events(m *model, s *state)
	// traits that do not change.
	traits() traits
}

// look is who reads what there is, and for which step.
type look struct {
	by    holder
	step  requestKind
	seen  sign   // claims: what the candidate has watched,
	quiet moment // and for how long it has not changed
	fresh bool   // Kubernetes: whether the holder renewed within a TTL, by the clocks of two hosts, which say anything
}

// forgetful is a store that keeps a mark.
type forgetful interface {
	store
	// self is what the server says about itself to a claim that finds an old mark.
	self(m *model, old mark, srv server, hasRecord bool) backends.Server
	// named is how a mark writes an identity.
	named(m *model, id identity) string
}

// traits of a kind of store.
type traits struct {
	name      string
	beats     bool // death is proved by silence: signs of life count
	twoStep   bool // a claim reads, decides, and writes if nothing has changed
	tells     bool // a beat is a change of what a claim has read (Consul), not of a key of its own (etcd)
	counts    bool // beats are counted in the record (Consul), and not numbered by the store
	writes    bool // whatever is written into the record is a beat, whoever writes it (ZooKeeper, Kubernetes)
	object    bool // one object holds all: whatever is changed about it is a beat (Kubernetes)
	versions  bool // what a claim compares is a number that the row or node counts (PostgreSQL, ZooKeeper)
	ephemeral bool // a grant creates the lease, which must not be there; one that is repeated finds it there (ZooKeeper)
	timelines bool // a restart is no new history (PostgreSQL)
	local     bool // wrappers and guardians hold the lease themselves
}

// decisions are the pure functions of package backends. A variant may replace one by one that lacks a rule.
type decisions struct {
	claim   func(backends.View, backends.Claim) backends.ClaimDecision
	renew   func(backends.View, backends.Grant) backends.RenewDecision
	finish  func(backends.View, backends.Grant, backends.Outcome) backends.EndDecision
	abandon func(backends.View, backends.Claim) backends.EndDecision
	order   func(backends.View, backends.Order) backends.OrderDecision
	admit   func(m backends.Mark, s backends.Server, longest time.Duration, now int64, hasRecord bool) (backends.Mark, time.Duration)
}

func realDecisions() decisions {
	return decisions{
		claim: backends.Decide, renew: backends.DecideRenew, finish: backends.DecideFinish,
		abandon: backends.DecideAbandon, order: backends.DecideOrder, admit: backends.Mark.Admit,
	}
}

// candidate is a wrapper as it is started.
type candidate struct {
	ttl      moment
	what     trigger
	policy   backends.Policy
	attempts int // --max-attempts
	requests int // how many it may have in flight: 1 or 2
}

// omissions are rules of wrapper, guardian and driver, outside the decisions, that a variant leaves out.
type omissions struct {
	evidenceByReply bool // evidence counts from the request, not from the reply that showed it
	compare         bool // a claim does not compare what it has read with what is there when it writes
	acks            bool // a step counts although the replicas have not acknowledged it
	allReplicas     bool // as many acknowledgements as replicas are connected, not as were ever seen
	seeAttached     bool // renewals do not notice a replica that was attached
	ownWrite        bool // a repeated Finish writes nothing before WAIT
	takeBack        bool // a wrapper that gives up sends no Abandon
	ownLock         bool // a free lock proves death, whoever it was granted to
	repeatExtends   bool // the same holder that asks again gets its grant, but the lease is not renewed
	onlyClaimsMark  bool // renewals write into the mark which server this is
	sameServer      bool // a claim compares the version that it has read, and not which server it has read it from
	ownTime         bool // a renewal counts from a time that was read in the step before
	startTime       bool // the mark does not say since when the server is up
	upLongEnough    bool // a server without mark and record is taken for new at once
	touches         bool // a renewal extends the lease, and writes nothing
	quietNotes      bool // a candidate writes that its tick passes whatever the clocks say
	neverAgain      bool // beats are counted by the record, and one that was put back counts them again
}

// variant is one world to explore.
type variant struct {
	name       string
	why        string // the rule that is left out, or what happens
	want       string // the property that is violated; "" holds
	quick      moment // the horizon in tests without -all; 0: only with it. Where the property is violated, the whole one
	long       bool   // but not if finding that takes long
	store      store
	ttl        moment
	candidates []candidate
	margin     moment
	horizon    moment // time ends there
	longest    moment // TTL that the store allows
	other      moment // likewise, as a host believes that claims another job
	replicas   uint8  // connected at the beginning
	isolated   uint8  // of them, with the old master after a partition
	dumps      bool   // the store is saved to disk now and then
	lags       bool   // a claim may read from a server that lags
	unmarked   bool   // the store is new
	often      bool   // the healthy candidate comes for a later tick each time
	faults     budget
	orders     []orderKind // what an operator may order
	gives      bool        // wrappers may give up before they start anything
	strict     bool        // what the store has lost is no excuse
	unnoticed  bool        // a replica may be promoted before any step has noticed it
	liveness   bool        // ask at every state whether a healthy candidate is granted in time
	idle       bool        // nobody asks about ticks that were lost unstarted
	only       string      // the one property that is asked for; "": all
	decide     decisions
	breaks     func(*decisions) // leaves a rule out of them
	without    omissions
}

// model explores one variant.
type model struct {
	*variant
	archive *archive
	traits  traits
	words   bool // moves are described
	moves   []move
	granted map[question]string // answers of the question of liveness
}

// move is one step from a state to the next.
type move struct {
	to     state
	text   string
	broken string // the property that this step violates
}

func newModel(v *variant) *model {
	return &model{variant: v, archive: newArchive(), traits: v.store.traits(), granted: map[question]string{}}
}

// begin returns the state in which everything begins.
func (m *model) begin() state {
	s := state{now: 1, faults: m.faults}
	s.site[0].server = server{identity: identity{run: 10, history: 10}, replicas: m.replicas, noticed: m.replicas > 0}
	s.site[0].mark = mark{identity: s.site[0].server.identity, replicas: m.replicas, longest: m.longest}
	if m.unmarked {
		s.site[0].mark = mark{}
	}
	if m.keepsReplica() {
		s.replica = s.site[0].kept
	}
	for i := range s.wrappers {
		if i >= len(m.candidates) {
			s.wrappers[i].phase = gone
		}
	}
	return s
}

// keepsReplica says whether there is an older copy of the store to fall back to.
func (m *model) keepsReplica() bool {
	return m.replicas > 0 || m.dumps || m.lags || m.faults[attach] > 0
}

// claimOf returns the claim that a wrapper sends.
func (m *model) claimOf(i int, q *request) backends.Claim {
	c := &m.candidates[i]
	return backends.Claim{
		Job: job, Holder: holderOf(holder(i + 1)), TTL: length(c.ttl),
		Seen:    backends.LastSeen{Token: q.seen.token.real(), Beat: int64(q.seen.beat), For: length(q.quiet)},
		Trigger: c.trigger(),
	}
}

func (c *candidate) trigger() backends.Trigger {
	return backends.Trigger{Tick: c.what.tick(), Once: c.what.key(), OnLost: c.policy, MaxAttempts: c.attempts}
}

// grantOf returns the grant that a wrapper's request speaks of.
func (m *model) grantOf(i int, q *request) backends.Grant {
	return backends.Grant{
		Claim: m.claimOf(i, &request{}), Token: q.token.real(), TTL: length(m.candidates[i].ttl),
		Tick: q.what.tick(), Attempt: int(q.attempt),
	}
}

// recordOf returns the record as a decision sees it.
func (m *model) recordOf(k *kept) backends.Record {
	r := *m.archive.get(k.record)
	r.Beat = int64(k.beat)
	return r
}
