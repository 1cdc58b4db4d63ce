package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// state is what Redis holds about a job, as one script showed it or left it. It is not changed.
type state struct {
	record  backends.Record
	version string // drawn anew for each write of the record; "": there is none
	beat    string // as it is stored
	stop    string // the same, of the request to stop

	lease *backends.Label // nil: there is none
	left  time.Duration   // of the lease

	now      int64     // the server's clock then, ms
	written  time.Time // when the answer came to the request that left this; zero: it was read
	identity string    // of the server
	epoch    string    // drawn anew with each mark; "": there is none
	replicas int64     // the highest number of replicas ever seen

	mark, next backends.Mark // as it is, and as it has to be before anybody is granted
	quarantine time.Duration
	notes      []string
}

// of returns what a snapshot of this store is.
func of(now backends.Snapshot) *state {
	s, _ := now.(*state)
	return s
}

// View implements backends.Snapshot.
func (s *state) View(backends.Request) backends.View {
	now := time.UnixMilli(s.now)
	if !s.written.IsZero() {
		now = now.Add(time.Since(s.written))
	}
	v := backends.View{Record: s.record, Now: now, Proof: backends.ByUntil, Quarantine: s.quarantine, Notes: s.notes}
	if s.lease != nil {
		v.Lease = &backends.Lease{Holder: s.lease.Holder, Token: s.lease.Token, Left: s.left}
	}
	return v
}

// Newer implements backends.Snapshot.
func (s *state) Newer(than backends.Snapshot) bool { return s.record.Beat > of(than).record.Beat }

// Complete implements backends.Snapshot.
func (*state) Complete(*backends.Grant) {}

// Read implements backends.Tx. A claim first sees to it that the mark is this server's: it is the only request that writes
// the mark, as a renewal must not vouch for a server that nobody has waited for.
func (t *tx) Read(ctx context.Context) (backends.Snapshot, error) {
	if t.q.Op == backends.ToClaim && t.q.TTL > t.cfg.longest {
		return nil, backends.Misconfigured(longestHint, "a TTL of %v is longer than this store allows (%v)", t.q.TTL, t.cfg.longest)
	}
	s, err := t.look(ctx, t.q.Job)
	if err == nil && t.q.Op == backends.ToClaim && !s.isMarked() {
		s, err = t.putMark(ctx, t.q.Job, s) // once: a server that evicts all the time is never marked for good, and in quarantine
	}
	if err == nil && t.q.Op == backends.ToClaim {
		err = t.turns(t.cfg.keys(t.q.Job)[2], s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// isMarked says whether the mark needs no change but for what can only grow, which goes with any write.
func (s *state) isMarked() bool {
	is, want := s.mark, s.next
	return s.epoch != "" && is.Identity == want.Identity && is.Until == want.Until && is.Evicted == want.Evicted
}

// look reads what there is about a job.
func (s *store) look(ctx context.Context, job string) (*state, error) {
	r, err := s.ask(ctx, request{script: readScript, job: job, acks: noAcks})
	if err != nil {
		return nil, err
	}
	return s.state(job, r)
}

// The elements of a reply.
const (
	replyNonce = iota
	replySaid
	replyReplicas
	replyNow

	stateLease
	stateLeft
	stateRecord
	stateMark
	stateIdentity
	stateRedis
	stateUptime
	stateEvicted
	statePromoted
	stateCommands
	stateSize

	doneUntil = stateLease
	doneBeat  = stateLeft
	doneSize  = doneBeat + 1
)

// state reads a reply that shows what there is.
func (s *store) state(job string, r reply) (*state, error) {
	if r.text(replySaid) != "state" || len(r.elements) != stateSize {
		return nil, errReply
	}
	n := numbers{reply: r}
	now := &state{now: n.at(replyNow), replicas: n.at(replyReplicas), identity: r.text(stateIdentity)}
	left, uptime, evicted := n.at(stateLeft), n.at(stateUptime), n.at(stateEvicted)
	record, mark := r.hash(stateRecord), r.hash(stateMark)
	if n.wrong || record == nil || mark == nil || now.identity == "" {
		return nil, errReply
	}
	if major, _, _ := strings.Cut(r.text(stateRedis), "."); len(major) == 1 && major < strconv.Itoa(oldest) {
		return nil, backends.Misconfigured("leaderrun needs Redis 5 or Valkey", "Redis %s is too old: 5 is needed", r.text(stateRedis))
	}
	k := s.cfg.keys(job)
	var err error
	if now.record, err = record.record(); err != nil {
		return nil, backends.Misconfigured(brokenHint, "key %s: %w", k[1], err)
	}
	if now.mark, err = mark.mark(); err != nil {
		return nil, broken(k[2] + ": " + err.Error())
	}
	if left != noKey {
		if now.lease, err = readLease(r.text(stateLease)); err != nil {
			return nil, broken(k[0] + ": " + err.Error())
		}
		if left < 0 { // its expiry was taken away: it counts as renewed just now
			left = now.record.TTL
		}
		now.left = time.Duration(left) * time.Millisecond
	}
	now.version, now.beat, now.stop, now.epoch = record["version"], record["beat"], record["break"], mark["epoch"]
	self := backends.Server{
		Identity: now.identity, Replicas: int(now.replicas), Evicted: evicted,
		// uptime_in_seconds is a difference of truncated seconds: the server may have started one later.
		Started: now.now - uptime*1000 + 1000,
		Forgot:  s.misses(k[2], now.mark) || evicted != 0 || r.text(statePromoted) != "-1" || forgot(now.mark.Identity, now.identity, r.text(stateCommands)),
	}
	now.next, now.quarantine = now.mark.Admit(self, s.cfg.longest, now.now, now.record.Token != 0)
	now.notes = s.cfg.notes(now.replicas)
	return now, nil
}

// noKey is what PTTL says of a key that is not there.
const noKey = -2

// misses says whether a mark is gone that this client has seen: another server has taken the place of the one that had it, as a node of a
// Cluster or behind a virtual IP, and knows nothing of its leases.
func (s *store) misses(key string, m backends.Mark) bool {
	if m.Identity != "" {
		s.marks.Store(key, true)
		return false
	}
	_, seen := s.marks.Load(key)
	return seen
}

// mostTurns is how many times another server may answer while all are in quarantine. Restarts and failovers come one after the other,
// and time to grant something between them.
const mostTurns = 3

// sights are the servers that answered for one mark since the last of them was not in quarantine.
type sights struct {
	mu    sync.Mutex
	last  string
	turns int
}

// turns returns an error where several servers answer by turns behind one address, or one that says something else each time: each would
// be waited for without end.
func (s *store) turns(key string, now *state) error {
	if now.quarantine == 0 {
		s.sights.Delete(key)
		return nil
	}
	is, _ := s.sights.LoadOrStore(key, new(sights))
	v, _ := is.(*sights)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last != now.identity {
		v.last = now.identity
		v.turns++
	}
	if v.turns > mostTurns {
		run, _, _ := strings.Cut(now.identity, ":")
		return fmt.Errorf("%d servers have answered by turns, this one with the run_id %.40s: there must be one behind the address", v.turns, run)
	}
	return nil
}

// forgot says whether a server that the mark does not know may have forgotten something since it started, or cannot show that
// it has not: another history means a promotion, after which the server may have forgotten the one before the last.
func forgot(marked, identity, commands string) bool {
	run, _, _ := strings.Cut(identity, ":")
	before, _, _ := strings.Cut(marked, ":")
	if before == run || !strings.Contains(commands, "cmdstat_") {
		return true
	}
	// RESETSTAT forgets all of the others; before Redis 7 it is not told apart from other uses of CONFIG.
	for _, name := range []string{"config|resetstat", "config", "flushall", "flushdb", "swapdb", "debug"} {
		_, calls, called := strings.Cut(commands, "\ncmdstat_"+name+":calls=")
		if called && !strings.HasPrefix(calls, "0") {
			return true
		}
	}
	return false
}

// readLease reads what the lease key holds.
func readLease(text string) (*backends.Label, error) {
	holder, digits, _ := strings.Cut(text, "|")
	token, err := strconv.ParseInt(digits, 10, 64)
	if holder == "" || err != nil || token <= 0 || token > backends.MaxToken || text != leaseText(&backends.Label{Holder: holder, Token: token}) {
		return nil, errors.New("it holds something that leaderrun did not write")
	}
	return &backends.Label{Holder: holder, Token: token}, nil
}

// leaseText is what the lease key holds; "": there is none.
func leaseText(l *backends.Label) string {
	if l == nil {
		return ""
	}
	return l.Holder + "|" + strconv.FormatInt(l.Token, 10)
}

// notes says what is not promised with fewer acknowledgements than replicas were seen.
func (c *config) notes(seen int64) []string {
	should, must := c.safe(int(seen)), c.required(int(seen))
	if must >= should {
		return nil
	}
	return []string{fmt.Sprintf(
		"only %d of %d replicas must acknowledge a step (?replicas=%d): after a failover two runs may overlap", must, should, c.replicas)}
}
