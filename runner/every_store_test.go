package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
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
	ends    int64 // of the lease
	leased  int64 // which lease it is
	mark    backends.Mark
	marked  int64 // of the mark
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
	quarantine time.Duration
	writes     int64
}

// View implements backends.Snapshot.
func (s *shot) View(backends.Request) backends.View {
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
	if s.isValid(serverTime(s.at)) {
		left := time.Duration(max(s.ends-ms, 0)) * time.Millisecond
		if s.e.proof == backends.ByRelease {
			left = time.Second
		}
		v.Lease = &backends.Lease{Holder: s.holder, Token: s.token, Left: left}
	}
	return v
}

// Newer implements backends.Snapshot.
func (s *shot) Newer(than backends.Snapshot) bool { return s.writes > than.(*shot).writes }

// Complete implements backends.Snapshot.
func (*shot) Complete(*backends.Grant) {}

// call is what a request asks of the store, and reply what the store says to it.
type call struct {
	op   backends.Op
	what byte // r(ead), e(xtend), s(wap); 0: nothing
	s    *shot
	w    backends.Write
}

type reply struct {
	at   Instant
	s    *shot
	done bool
	err  error
}

var callTexts = map[byte]string{'r': "a read", 'e': "an extension", 's': "a swap"}

func (r reply) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.done:
		return "written"
	case r.s == nil:
		return "extended"
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
func (*explorer) Traits() backends.Traits { return backends.Traits{} }

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

func (t *replayTx) Read(context.Context) (backends.Snapshot, error) {
	r := t.ask('r', nil, backends.Write{})
	if r.err != nil {
		return nil, r.err
	}
	return r.s, nil
}

// Extend is a step of its own where the store's lease is apart from what Swap writes.
func (t *replayTx) Extend(_ context.Context, s backends.Snapshot) (time.Duration, error) {
	ttl := t.q.TTL
	if t.e.out.longer != 0 {
		ttl = t.e.out.longer
	}
	if t.e.proof != backends.ByBeat || t.q.Op != backends.ToRenew {
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

// serve has the store carry out a call.
func (w *orders) serve(p *process, c call) reply {
	k, e := &w.store, w.e
	ms := serverTime(w.now)
	take := func() *shot { return &shot{kept: *k, e: e, at: w.now, writes: w.writes} }
	switch c.what {
	case 'r':
		s := take()
		if e.quarantines && (c.op == backends.ToClaim || c.op == backends.ToOrder) {
			var next backends.Mark
			next, s.quarantine = k.mark.Admit(k.server, e.ttl(), ms, k.record != nil)
			if e.out.trusts {
				s.quarantine = 0
			}
			if next != k.mark && c.op == backends.ToClaim { // written before anything is decided on it
				k.mark = next
				k.marked = w.draw()
				s.mark, s.marked = k.mark, k.marked
			}
		}
		return reply{at: w.now, s: s}
	case 'e':
		if !k.isValid(ms) || k.holder != c.s.holder || k.token != c.s.token {
			return reply{at: w.now, err: backends.ErrNoLease}
		}
		k.ends = ms + c.w.TTL.Milliseconds()
		return reply{at: w.now}
	}
	renewal := c.w.Lease != nil && k.holder == c.w.Lease.Holder && k.token == c.w.Lease.Token
	same := (k.written == c.s.written || e.out.anyRecord) && (k.leased == c.s.leased || e.out.anyLease) &&
		(!c.w.CompareBeat || k.beat == c.s.beat || e.out.anyBeat) &&
		(c.w.Lease == nil || renewal || k.marked == c.s.marked || e.out.anyMark) && (!renewal || k.isValid(ms))
	if !same {
		if e.quarantines && c.op == backends.ToClaim && !e.out.showsUnmarked {
			return reply{at: w.now} // a read sees to the mark
		}
		return reply{at: w.now, s: take()}
	}
	w.before = w.store
	w.write(p, c, renewal)
	return reply{at: w.now, s: take(), done: true}
}

// write carries out a swap.
func (w *orders) write(p *process, c call, renewal bool) {
	k, e, r := &w.store, w.e, &c.w.Record
	ms := serverTime(w.now)
	isSame := renewal && k.record != nil && k.record.Token == r.Token && len(k.record.Runs) == len(r.Runs)
	if !isSame {
		k.record, k.written = file(*r), w.draw()
		w.tellWatchers(p)
	}
	switch {
	case c.w.Lease != nil && !e.out.readTime:
		k.until, k.beat = ms+c.w.TTL.Milliseconds(), w.draw()
		if e.out.beatless && renewal {
			k.beat = c.s.beat
		}
	case c.w.Beat || c.w.Lease != nil:
		k.until, k.beat = r.Until, w.draw()
	case e.out.takesBeats:
		k.until, k.beat = r.Until, r.Beat
	}
	switch l := c.w.Lease; {
	case l != nil:
		if w.isEnded(l.Holder) {
			w.fail("a lease is given to %s, which has ended", l.Holder)
		}
		if !renewal {
			k.leased = w.draw()
		}
		k.holder, k.token, k.ends = l.Holder, l.Token, ms+c.w.TTL.Milliseconds()
		if e.proof == backends.ByRelease {
			k.ends = 1 << 60
		}
	case c.w.Release:
		k.holder, k.leased = "", w.draw()
	}
}

// draw returns a number that never comes again, unless the store is one that counts anew.
func (w *orders) draw() int64 { w.writes++; return w.writes }
