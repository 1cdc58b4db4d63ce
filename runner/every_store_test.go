package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// kept is what a store holds about the one job, and about itself. A copy of it goes its own way. Instants are milliseconds of
// the server's clock. Numbers that tell one write from another never come again.
type kept struct {
	record  *filed // nil: none
	until   int64  // like beat, the store's own: what a client has read of them is never written back
	beat    int64
	written int64 // of the record, but for until and beat
	holder  string
	token   int64
	ends    int64          // of the lease
	leased  int64          // which lease it is
	label   backends.Label // whom it was granted to last, as what is left of it says
	term    int64          // of that, ms
	mark    backends.Mark
	marked  int64 // of the mark; 0: there is none
	server  backends.Server
}

// filed is a record, which is never changed, with its digest.
type filed struct {
	backends.Record
	digest uint64
}

var fileSeed = maphash.MakeSeed()

func file(r backends.Record) *filed {
	r.Until, r.Beat = 0, 0
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return &filed{r, maphash.Bytes(fileSeed, text)}
}

// The server's clock runs four percent faster than those of the hosts: the margin of the shortest TTL is five.
const fastServer, slowHost = 26, 25

func serverTime(at Instant) int64 {
	return 1_000_000_000_000 + at.Sub(boot).Milliseconds()*fastServer/slowHost
}

// hostTime returns the first instant at which the server's clock shows ms.
func hostTime(ms int64) Instant {
	const unit = fastServer
	return boot.Add(time.Duration((ms-1_000_000_000_000)*slowHost+unit-1) / unit * time.Millisecond)
}

func (k *kept) isValid(ms int64) bool { return k.holder != "" && ms < k.ends }

// shot is a Snapshot. The clock goes on after it was taken.
type shot struct {
	kept
	e          *explorer
	at         Instant
	next       backends.Mark // as it has to be before anybody is granted
	quarantine time.Duration
	writes     int64
}

// View implements backends.Snapshot.
func (s *shot) View(q backends.Request) backends.View {
	now := s.e.clock
	if s.e.out.oldClock {
		now = s.at
	}
	ms := serverTime(now)
	v := backends.View{Now: time.UnixMilli(ms), Proof: s.e.proof, Quarantine: s.quarantine}
	if s.record != nil {
		v.Record = s.record.Record
		v.Record.Until, v.Record.Beat = s.until, s.beat
	}
	switch {
	case s.e.object:
		v.Lease = s.ofObject(q, &v.Record, ms)
	case s.isValid(serverTime(s.at)):
		left := time.Duration(max(s.ends-ms, 0)) * time.Millisecond
		if s.e.proof == backends.ByRelease {
			left = time.Second
		}
		v.Lease = &backends.Lease{Holder: s.holder, Token: s.token, Left: left}
	}
	if s.e.labels {
		s.readLabel(&v)
	}
	return v
}

// readLabel goes by what is left of the last lease. A lock that is free proves the death of whom it was granted to, and of nobody else.
// Where the record was lost, a session's lock tells of the run.
func (s *shot) readLabel(v *backends.View) {
	r := &v.Record
	if s.e.proof == backends.ByRelease {
		v.Floor = s.label.Token
		if v.Lease == nil && s.label != (backends.Label{Holder: r.Holder.ID, Token: r.Token}) && !s.e.out.anyLock {
			v.Proof = backends.ByUntil
		}
		return
	}
	if s.label.Token <= r.Token {
		return
	}
	r.TTL = max(r.TTL, s.term)
	if v.Lease == nil {
		r.Job, r.Token, r.Holder = "job", s.label.Token, backends.Holder{ID: s.label.Holder}
	}
}

// ofObject is the lease of an object in which nothing ends by itself, as Kubernetes has it: its holder has it as long as nobody took it,
// and for others it is there for a TTL after the last beat that they have seen to come. Who has seen none come goes by the clocks.
func (s *shot) ofObject(q backends.Request, r *backends.Record, ms int64) *backends.Lease {
	if s.holder == "" || r.Token == 0 || r.Free() || r.Holder.ID != s.holder {
		return nil
	}
	if q.Holder.ID != "H1" {
		ms += s.e.skew.Milliseconds()
	}
	ttl := time.Duration(r.TTL) * time.Millisecond
	silence := time.Duration(ms-r.Until)*time.Millisecond + ttl
	left, known := ttl, q.Seen.Token == r.Token
	switch {
	case q.Holder.ID == s.holder:
	case known && q.Seen.Beat == r.Beat && silence.Abs() < ttl:
		left -= q.Seen.For
	case known && q.Seen.Beat != r.Beat: // there was a beat meanwhile
	default:
		left -= silence.Abs()
	}
	if left <= 0 {
		return nil
	}
	return &backends.Lease{Holder: s.holder, Token: r.Token, Left: left}
}

// Newer implements backends.Snapshot.
func (s *shot) Newer(than backends.Snapshot) bool { return s.writes > than.(*shot).writes }

// Complete implements backends.Snapshot.
func (*shot) Complete(*backends.Grant) {}

// call is what a request asks of the store, and reply what the store says to it.
type call struct {
	op   backends.Op
	what byte // r(ead), m(ark), e(xtend), s(wap); 0: nothing
	s    *shot
	w    backends.Write
}

type reply struct {
	at   Instant
	s    *shot
	done bool
	err  error
}

var callTexts = map[byte]string{'r': "a read", 'm': "a mark", 'e': "an extension", 's': "a swap"}

func (r reply) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.done:
		return "written"
	case r.s == nil:
		return "done"
	}
	return fmt.Sprintf("holder %q, token …%d", r.s.holder, r.s.token%1_000_000)
}

// A request at the engine is replayed with the replies that it has got, up to the first call that has none yet. So it can be
// copied, and others act between its calls.
type replay struct {
	replies []reply
	wanted  call
	ends    func()
}

var errWaits = errors.New("a call without a reply")

// Traits implements backends.Store, and so do the following methods.
func (e *explorer) Traits() backends.Traits {
	return backends.Traits{Rewrites: e.acks && !e.out.readsEnd}
}

func (e *explorer) Begin(_ context.Context, q backends.Request) backends.Tx { return &replayTx{e, q} }

func (*explorer) Follow(context.Context, string, func(backends.News)) error { panic("not asked") }

func (*explorer) List(context.Context) ([]string, error) { panic("not asked") }

func (*explorer) Check(context.Context, time.Duration) []backends.Finding { panic("not asked") }

func (*explorer) Close() error { return nil }

type replayTx struct {
	e *explorer
	q backends.Request
}

func (t *replayTx) ask(what byte, s backends.Snapshot, w backends.Write) reply {
	r := &t.e.replay
	if len(r.replies) == 0 {
		known, _ := s.(*shot)
		r.wanted = call{t.q.Op, what, known, w}
		panic(errWaits)
	}
	next := r.replies[0]
	r.replies = r.replies[1:]
	t.e.clock = next.at
	return next
}

// Read sees to it that the mark is the server's before a claim is decided on what it shows.
func (t *replayTx) Read(context.Context) (backends.Snapshot, error) {
	r := t.ask('r', nil, backends.Write{})
	if r.err == nil && t.e.quarantines && t.q.Op == backends.ToClaim && !r.s.isMarked() {
		r = t.ask('m', r.s, backends.Write{})
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.s, nil
}

// isMarked says whether the mark needs no change but for what can only grow, which goes with any write.
func (s *shot) isMarked() bool {
	is, want := &s.mark, &s.next
	return s.marked != 0 && is.Identity == want.Identity && is.Until == want.Until && is.Evicted == want.Evicted
}

// Extend is a step of its own where the store's lease is apart from what Swap writes.
func (t *replayTx) Extend(_ context.Context, s backends.Snapshot) (time.Duration, error) {
	ttl := t.q.TTL
	if t.e.out.longer != 0 {
		ttl = t.e.out.longer
	}
	if t.e.proof != backends.ByBeat || t.e.object || t.q.Op != backends.ToRenew {
		return ttl, nil
	}
	return ttl, t.ask('e', s, backends.Write{TTL: ttl}).err
}

func (t *replayTx) Swap(_ context.Context, s backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	r := t.ask('s', s, w)
	if r.s == nil {
		return nil, r.done, r.err
	}
	return r.s, r.done, r.err
}

func (t *replayTx) End(context.Context, error) {
	if t.e.replay.ends != nil {
		t.e.replay.ends()
	}
}

// given is a context that is over: who meets others twice gives up, and makes no pause. Nothing else asks it.
var given = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// carry replays a request. It returns its answer, or the call that has no reply yet.
func (e *explorer) carry(p *process, r *request) (in input, wanted call) {
	e.replay = replay{replies: r.replies}
	e.clock = r.began
	defer func() {
		if x := recover(); x != nil {
			if x != any(errWaits) {
				panic(x)
			}
			wanted = e.replay.wanted
		}
	}()
	switch a := r.asks.(type) {
	case doClaim:
		g, err := e.engine.Acquire(given, a.claim)
		if err == nil {
			p.known, p.doubted = backends.CacheOf(g).Last().(*shot), false
			g.Private = nil
		}
		return claimAnswer{g, err}, call{}
	case doRenew:
		h := e.holding(p, r, &a.grant)
		s, err := e.engine.Renew(given, a.grant)
		p.knows(h)
		a.grant.Private = nil
		return renewAnswer{a, s, err}, call{}
	case doFinish:
		h := e.holding(p, r, &a.grant)
		err := e.engine.Finish(given, a.grant, a.outcome)
		p.knows(h)
		return releaseAnswer{err}, call{}
	case doAbandon:
		return releaseAnswer{e.engine.Abandon(given, a.claim)}, call{}
	case backends.Order:
		return releaseAnswer{e.engine.Order(given, a)}, call{}
	}
	panic(r.asks)
}

// holding gives a grant what was known of its lease when the request began. When it ends, others may know more.
func (e *explorer) holding(p *process, r *request, g *backends.Grant) *backends.LeaseCache {
	var h *backends.LeaseCache
	set := func(known *shot, doubted bool) {
		var s backends.Snapshot
		if known != nil {
			s = known
		}
		if h == nil {
			h = backends.NewLeaseCache(s)
		}
		h.Saw(h.Last(), s)
		if doubted {
			h.Doubt(s)
		}
	}
	set(r.known, r.doubted)
	g.Private = h
	e.replay.ends = func() { set(p.known, p.doubted) }
	return h
}

func (p *process) knows(h *backends.LeaseCache) {
	p.known, _ = h.Last().(*shot)
	p.doubted = h.Doubted()
}

// site returns the server that a process reaches: in a partition, H1 reaches the one that was the master before.
func (w *orders) site(p *process) *kept {
	if w.split && p == &w.procs[0] {
		return &w.old
	}
	return &w.store
}

// shoot takes a Snapshot.
func (w *orders) shoot(k *kept) *shot {
	s := &shot{kept: *k, e: w.e, at: w.now, writes: w.writes}
	if w.e.quarantines {
		s.next, s.quarantine = w.e.admit(k, serverTime(w.now), w.e.longest.Milliseconds())
	}
	return s
}

// admit asks the mark about the server.
func (e *explorer) admit(k *kept, ms, longest int64) (next backends.Mark, quarantine time.Duration) {
	m, s := k.mark, k.server
	if e.out.countsFromStart {
		s.Forgot = false
	}
	if e.out.evictionsUnseen {
		s.Evicted = m.Evicted
	}
	if e.out.newAtOnce && m.Identity == "" {
		s.Started = 0
	}
	if run, _, _ := strings.Cut(m.Identity, ":"); e.out.runOnly && strings.HasPrefix(s.Identity, run+":") {
		m.Identity = s.Identity
	}
	next, quarantine = m.Admit(s, time.Duration(longest)*time.Millisecond, ms, k.record != nil && k.record.Token != 0)
	if e.out.trusts {
		quarantine = 0
	}
	return next, quarantine
}

// serve has the store carry out a call.
func (w *orders) serve(p *process, asks any, c call) reply {
	k, e := w.site(p), w.e
	ms := serverTime(w.now)
	isServer := c.s != nil && (k.server.Identity == c.s.server.Identity || e.out.anyServer)
	if e.out.renewalsMark && c.op == backends.ToRenew {
		k.mark.Identity = k.server.Identity
	}
	switch c.what {
	case 'r':
		return reply{at: w.now, s: w.shoot(k)}
	case 'm':
		if isServer && k.marked == c.s.marked {
			k.mark, k.marked = c.s.next, w.draw()
		}
		return reply{at: w.now, s: w.shoot(k)}
	case 'e':
		if !k.isValid(ms) || k.holder != c.s.holder || k.token != c.s.token {
			return reply{at: w.now, err: backends.ErrNoLease}
		}
		k.ends = ms + e.lasts(c.w.TTL)
		return reply{at: w.now}
	}
	renewal := c.w.Lease != nil && k.holder == c.w.Lease.Holder && k.token == c.w.Lease.Token
	same := isServer && (k.written == c.s.written || e.out.anyRecord) && (k.leased == c.s.leased || e.out.anyLease) &&
		(!c.w.CompareBeat || k.beat == c.s.beat || e.out.anyBeat) &&
		(c.w.Lease == nil || renewal || k.marked == c.s.marked || e.out.anyMark) && (!renewal || k.isValid(ms))
	if !same {
		if e.quarantines && c.op == backends.ToClaim && !e.out.showsUnmarked {
			return reply{at: w.now} // a read sees to the mark
		}
		now := w.shoot(k)
		if e.out.showsUnmarked {
			now.quarantine = 0
		}
		return reply{at: w.now, s: now}
	}
	if isAgain := renewal && c.op == backends.ToClaim; isAgain && e.out.againKeeps {
		return reply{at: w.now, s: w.shoot(k), done: true}
	}
	w.checkWrite(p, k, asks, c)
	w.write(p, k, c, renewal)
	if isNote := c.op == backends.ToClaim && c.w.Lease == nil; !isNote && !w.hasAcks(k) {
		return reply{at: w.now, s: w.shoot(k), done: true, err: errUnacknowledged}
	}
	return reply{at: w.now, s: w.shoot(k), done: true}
}

// errUnacknowledged says that an answer waits for replicas.
var errUnacknowledged = errors.New("too few replicas have it")

// lasts is for how long a lease lasts, in milliseconds, if nothing ends it before.
func (e *explorer) lasts(ttl time.Duration) int64 {
	if e.late {
		ttl *= 2
	}
	return ttl.Milliseconds()
}

const noEnd = 1 << 60

// write carries out a swap.
func (w *orders) write(p *process, k *kept, c call, renewal bool) {
	e, r := w.e, &c.w.Record
	ms := serverTime(w.now)
	isSame := renewal && !e.whole && k.record != nil && k.record.Token == r.Token && len(k.record.Runs) == len(r.Runs)
	if !isSame {
		k.record, k.written = file(*r), w.draw()
	}
	if !renewal {
		w.tellWatchers(p)
	}
	fromRead := e.out.readTime || e.fromRead && c.op == backends.ToClaim // until is what was decided
	switch {
	case c.w.Lease != nil && !fromRead:
		k.until = ms + c.w.TTL.Milliseconds()
	case c.w.Beat || c.w.Lease != nil:
		k.until = r.Until
	case e.out.takesBeats:
		k.until, k.beat = r.Until, r.Beat
	}
	switch {
	case !c.w.Beat && c.w.Lease == nil && !e.out.notesBeat, e.out.beatless && renewal:
	case e.counts:
		k.beat = r.Beat
	default:
		k.beat = w.draw()
	}
	switch l := c.w.Lease; {
	case l != nil:
		if w.isEnded(l.Holder) {
			w.fail("a lease is given to %s, which has ended", l.Holder)
		}
		if !renewal {
			k.leased, k.label, k.term = w.draw(), *l, c.w.TTL.Milliseconds()
		}
		k.holder, k.token, k.ends = l.Holder, l.Token, ms+e.lasts(c.w.TTL)
		switch {
		case e.proof == backends.ByRelease, e.object:
			k.ends = noEnd
		case fromRead && e.fromRead:
			k.ends = r.Until
		}
	case c.w.Release:
		k.holder, k.leased = "", w.draw()
		if e.proof != backends.ByRelease {
			k.label, k.term = backends.Label{}, 0
		}
	}
	k.mark.Longest = max(k.mark.Longest, e.longest.Milliseconds())
	if !(e.out.attachedUnseen && renewal) {
		k.mark.Replicas = max(k.mark.Replicas, k.server.Replicas)
	}
	if k == &w.store {
		w.copied.unseen = false
	}
}

// draw returns a number that never comes again, unless the store is one that counts anew.
func (w *orders) draw() int64 { w.writes++; return w.writes }
