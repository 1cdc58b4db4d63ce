package model

// Everything that differs between two moments is in state: flat, comparable and small, because a run of the model
// holds millions. Records are kept once in the model's archive, and states hold their number.

// moment is a time, or a length of time, in units of the model. 0 is before everything.
type moment uint8

// token is a fencing token, as milliseconds above the beginning of time. 0: none.
type token uint16

// holder is one attempt to run the job: 1 to maxWrappers, each a wrapper, or one of those below. 0: nobody.
type holder uint8

const (
	maxWrappers = 3

	newcomer holder = 7 // the healthy candidate that the question of liveness asks for
	operator holder = 8 // each of their orders has an id of its own, above this
)

// trigger is what a run is for: 0 for nothing in particular, a tick, or the key.
type trigger uint8

const (
	lastTick trigger = 3
	theKey   trigger = 4
	kinds            = 5 // of triggers, for arrays
)

// state is one moment of the world. Neither it nor a part of it has gaps between its fields: so it is hashed as one
// piece of memory, which is most of the work. A test sees to that.
type state struct {
	now      moment
	split    bool    // wrapper 1 reaches only the isolated site
	highest  token   // the highest one that a child has run with
	site     [2]site // the store; 1 is the isolated old master, after a partition
	replica  kept    // what the laggiest replica has, or the last dump on disk
	wrappers [maxWrappers]wrapper
	order    order
	faults   budget
	past     [kinds]past
}

// past is what became of a tick or key.
type past struct {
	started uint8 // how often
	once    bool  // by a wrapper whose policy is skip
	done    bool  // some wrapper knows that it is done
	amnesia bool  // the store has forgotten all that
}

// site is a server and what it keeps.
type site struct {
	kept
	server server
}

// kept is what a store keeps about the job, and about itself.
type kept struct {
	record record
	lease  lease
	label  label // what was written into the lock: it stays when the lock is freed by the store
	beat   beat  // the record's
	mark   mark  // Redis, PostgreSQL

	version uint32 // of the row or node: how often it was written since it was made. 0: there is none
}

// beat is a sign of life, as a rank among those that anybody knows. 0: none.
type beat uint16

// lease is the right to run the job. On a file it has no end, and on Consul the latest one.
type lease struct {
	token  token
	holder holder
	until  moment
}

// label is whom a lock was granted to, as its value says.
type label struct {
	token  token
	holder holder
	ttl    moment
}

// mark is backends.Mark. Its identity is two numbers.
type mark struct {
	identity identity
	replicas uint8
	longest  moment
	until    moment
	evicted  uint8
}

// identity of a server: the process, and its replication history or timeline. Zero: none.
type identity struct{ run, history uint8 }

// server is backends.Server.
type server struct {
	identity identity
	started  moment
	replicas uint8 // connected now
	evicted  uint8
	flushed  bool
	promoted bool
	noticed  bool // some step was answered since the last replica was attached
}

// wrapper is one `leaderrun run`, its guardian and its child.
type wrapper struct {
	phase    phase
	alive    bool    // the child is
	wrecked  bool    // wrapper and guardian were killed together
	amnesiac bool    // its run is not counted: the store had forgotten another one of its tick, or is to forget it
	valid    moment  // V: the guardian kills then
	what     trigger // that is run
	attempt  uint8
	outcome  outcome
	end      end
	seenAt   moment // when it saw the sign first
	token    token
	seen     sign // the last sign of life of another holder
	requests [2]request
}

// phase is where a wrapper is.
type phase uint8

const (
	claiming  phase = iota
	granted         // and not started yet
	running         // the child was started
	finishing       // the child is dead
	undoing         // nothing was started: the claim is taken back
	gone            // sends nothing any more
)

// end is how a wrapper that is gone ended, as far as a property asks.
type end uint8

const (
	noEnd     end = iota
	hasRun        // started a child
	takenBack     // its claim, and the store has confirmed that
	silent        // gave up without a word
)

// sign of life.
type sign struct {
	token token
	beat  beat
}

// outcome of a run.
type outcome uint8

const (
	noOutcome outcome = iota
	done
	lost
	stopped
)

// request is one on its way to the store, or its reply on the way back.
type request struct {
	kind    requestKind
	stage   stage
	answer  answer
	acked   acked
	stale   bool   // claims that were decided on what a read showed: it is not so any more
	sent    moment // t0
	quiet   moment // claims: for how long the sign has not changed
	what    trigger
	attempt uint8
	outcome outcome
	read    moment // claims that were decided: when they read,
	server  uint8  // from which server,
	token   token
	version uint16 // and in which version
	seen    sign   // claims: that was seen; replies: that is shown
	next    record // claims: what they write
}

type requestKind uint8

const (
	noRequest requestKind = iota
	claim
	renew
	finish
	abandon
	operate // an operator's order
)

// stage of a request.
type stage uint8

const (
	underway stage = iota + 1
	looked         // its first half is over: it has read, and decides
	answered       // the reply is on its way
)

// answer of the store.
type answer uint8

const (
	noAnswer answer = iota
	isGranted
	isHeld
	isQuarantined
	isVanished
	isAbandoned
	isOver // the tick or key has an end, and it is not lost
	isLost // the tick or key is
	isRenewed
	isAskedToStop // renewed, and an operator asks for the end
	isEnded
	isNotYours
)

// acked says whether the replicas have what was written.
type acked uint8

const (
	enough  acked = iota
	pending       // until the replica has caught up
	never
)

// order is what an operator does: they look, and order; their order may be repeated.
type order struct {
	kind  orderKind
	left  uint8 // how often the order may still arrive
	token token // that they saw
}

type orderKind uint8

const (
	noOrder orderKind = iota
	askToStop
	revoke
	declareDead
	forgetJob
	forgetTick
)

// siteOf returns which store a wrapper reaches.
func (s *state) siteOf(i int) int {
	if s.split && i == 0 {
		return 1
	}
	return 0
}
