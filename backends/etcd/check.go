package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

const (
	farBehind  = 1000 // entries of the log
	nearlyFull = 0.8  // of the quota

	unreachable = "is the member up, and does a firewall let this host through?"
	leaderless  = "most members must run and reach each other"
)

// examined is what one endpoint of the URL says.
type examined struct {
	rpc.Status
	addr   string
	client *rpc.Client
	trip   checkup.Trip
	err    error
}

// examination is what is known while a cluster is looked at.
type examination struct {
	checkup.Findings
	s   *store
	all []*examined // in the order of the URL
	up  []*examined // those that answer
	ask *rpc.Client // of the first one that serves
}

// Check implements backends.Store. It asks for one lease of etcd's, and gives it back.
func (s *store) Check(ctx context.Context, ttl time.Duration) []backends.Finding {
	x := &examination{s: s}
	u := s.cfg.url
	if s.cfg.tls == nil && u.Login.Password() != "" {
		x.InClear("password", u.Addrs, "use TLS: etcds://")
	}
	x.askMembers(ctx)
	defer func() {
		for _, m := range x.all {
			_ = m.client.Close()
		}
	}()
	if len(x.up) == 0 {
		return x.Findings
	}
	x.ask = x.up[0].client
	if i := slices.IndexFunc(x.up, func(m *examined) bool { return m.Leader != 0 && !m.Learner }); i >= 0 {
		x.ask = x.up[i].client
	}
	x.clusters()
	x.versions(ttl)
	x.leader()
	x.members(ctx)
	x.alarms()
	x.size()
	if x.rights(ctx) {
		x.leases(ctx, ttl)
	}
	return x.Findings
}

// askMembers asks all at once, each by a client of its own.
func (x *examination) askMembers(ctx context.Context) {
	u := x.s.cfg.url
	x.all = checkup.AskAll(ctx, u.Addrs, func(ctx context.Context, addr string) *examined {
		m := &examined{addr: addr, client: rpc.New(rpc.Config{
			Endpoints: []string{addr}, TLS: x.s.cfg.tls, Login: u.Login,
		})}
		m.Status, m.trip, m.err = checkup.AskTwice(func() (rpc.Status, error) { return m.client.Status(ctx) })
		return m
	})
	var told []checkup.Answer
	for _, m := range x.all {
		if m.err == nil {
			x.up = append(x.up, m)
		}
		a := checkup.Answer{Fine: fmt.Sprint(m.addr, " ", m.trip), Err: x.s.ofMember(m.err), Remedy: unreachable} // which names the endpoint
		if e, answered := errors.AsType[*rpc.Error](m.err); answered && e.Code == rpc.Unavailable {
			a.Remedy = leaderless
		}
		told = append(told, a)
	}
	x.Hosts(told)
}

// clusters makes sure that the URL names one: two would each give a job to somebody.
func (x *examination) clusters() {
	const what = "cluster"
	byID := map[uint64][]string{}
	for _, m := range x.up {
		byID[m.Header.ClusterID] = append(byID[m.Header.ClusterID], m.addr)
	}
	if len(byID) == 1 {
		x.Fine(what, "all that answer are of cluster %x", x.up[0].Header.ClusterID)
		return
	}
	var parts []string
	for id, addrs := range byID {
		parts = append(parts, fmt.Sprintf("%s of %x", strings.Join(addrs, " and "), id))
	}
	slices.Sort(parts)
	x.Bad(what, "name the members of one cluster", "the URL names members of %d clusters, each of which would give a job to somebody: %s",
		len(byID), strings.Join(parts, ", "))
}

func (x *examination) versions(ttl time.Duration) {
	const (
		what = "version"
		long = 5 * time.Minute // how often a leader writes down what is left of a lease
	)
	seen := map[string]bool{}
	for _, m := range x.up {
		seen[m.Version] = true
	}
	for _, version := range slices.Sorted(maps.Keys(seen)) {
		var major, minor int
		if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 3 || major == 3 && minor < 4) {
			x.Bad(what, "leaderrun needs etcd 3.4 or later", "etcd %s is too old", version)
			continue
		}
		faults := knownFaults(version)
		for _, fault := range faults {
			x.Warn(what, "update to 3.4.42, 3.5.28 or 3.6.9, or what came after", "%s", fault)
		}
		if len(faults) == 0 {
			x.Fine(what, "etcd %s, of which no fault is known that concerns leases", version)
		}
		if ttl > long && major == 3 && minor < 6 {
			x.Warn("checkpoints", "use a shorter --ttl, or etcd 3.6", "etcd %s may begin a TTL of %v anew when its leader changes", version, ttl)
		}
	}
}

func (x *examination) leader() {
	const what = "leader"
	leaders := map[uint64]bool{}
	var ahead uint64
	for _, m := range x.up {
		if m.Leader == 0 {
			x.Bad(what, leaderless, "%s knows no leader: nothing is granted there", m.addr)
			continue
		}
		leaders[m.Leader] = true
		ahead = max(ahead, m.Committed)
	}
	if len(leaders) > 1 {
		x.Warn(what, "look whether it goes on: etcd_server_leader_changes_seen_total", "members follow different leaders: an election, or a network that is split")
	}
	if len(leaders) == 1 {
		x.Fine(what, "%x, in term %d", slices.Collect(maps.Keys(leaders))[0], x.up[0].Term)
	}
	for _, m := range x.up {
		if behind := ahead - min(ahead, m.Applied); m.Applied > 0 && behind > farBehind {
			x.Warn("log", "look at its disk and its network", "%s is %d entries behind", m.addr, behind)
		}
	}
}

// members compares the URL with the cluster. Who may not list the members learns less.
func (x *examination) members(ctx context.Context) {
	const what = "members"
	for _, m := range x.up {
		if m.Learner {
			x.Warn(what, "leave it out of the URL, or promote it", "%s is a learner, which takes no requests", m.addr)
		}
	}
	all, err := checkup.Limited(ctx, x.ask.Members)
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(m rpc.Member) bool { return m.Learner })
	x.Quorum(what, len(all), len(x.s.cfg.url.Addrs))
}

func (x *examination) alarms() {
	const what = "alarms"
	told := map[string]bool{}
	for _, m := range x.up {
		for _, e := range m.Errors {
			switch {
			case told[e]:
			case strings.Contains(e, "NOSPACE"):
				x.Bad(what, "etcdctl compact, defrag and alarm disarm; then a larger --quota-backend-bytes or --auto-compaction-retention", "NOSPACE: etcd takes no writes")
			case strings.Contains(e, "CORRUPT"):
				x.Bad(what, "replace the member", "CORRUPT: the members' data differ (%s)", strings.TrimSpace(e))
			}
			told[e] = true
		}
	}
	if !slices.ContainsFunc(x.Findings, func(f backends.Finding) bool { return f.What == what }) {
		x.Fine(what, "none")
	}
}

func (x *examination) size() {
	const (
		what         = "size"
		defaultQuota = 2 << 30 // server/storage/quota.go
		mb           = 1 << 20
	)
	m := slices.MaxFunc(x.up, func(a, b *examined) int { return cmp.Compare(a.Size, b.Size) })
	quota := cmp.Or(m.Quota, defaultQuota)
	if float64(m.Size) > nearlyFull*float64(quota) {
		x.Warn(what, "--auto-compaction-retention 1h, and etcdctl defrag", "%d of %d MB at %s: at the quota etcd takes no writes", m.Size/mb, quota/mb, m.addr)
		return
	}
	x.Fine(what, "%d of %d MB", m.Size/mb, quota/mb)
}

// rights reads all keys of the prefix, and asks for a transaction that would write, was its condition true. etcd
// looks at the rights for both branches before it looks at the condition.
func (x *examination) rights(ctx context.Context) bool {
	from, end := below(x.s.cfg.prefix)
	_, err := checkup.Limited(ctx, func(ctx context.Context) (rpc.RangeReply, error) {
		return x.ask.Range(ctx, rpc.Range{Key: from, End: end, Limit: 1, KeysOnly: true})
	})
	if err == nil {
		key := x.s.cfg.keys("\x00").record // no job's: a name has no zero byte
		const never = 1 << 62
		_, err = checkup.Limited(ctx, func(ctx context.Context) (rpc.TxnReply, error) {
			return x.ask.Txn(ctx, rpc.Txn{
				If:   []rpc.Compare{{Key: key, Of: rpc.CreateRevision, Value: never}},
				Then: []rpc.Op{{Put: &rpc.Put{Key: key, Value: key}}},
				Else: []rpc.Op{{Range: &rpc.Range{Key: key}}},
			})
		})
	}
	if err != nil {
		x.Failed(checkup.Rights, unreachable, x.s.ofMember(err))
		return false
	}
	x.Fine(checkup.Rights, "may read and write below %s/", x.s.cfg.prefix)
	return true
}

// leases asks for the shortest lease that etcd keeps.
func (x *examination) leases(ctx context.Context, ttl time.Duration) {
	const what = "leases"
	id := rand.Int64N(1<<62) + 1 //nolint:gosec // it need not be secret
	reply, err := checkup.Limited(ctx, func(ctx context.Context) (rpc.LeaseReply, error) { return x.ask.Grant(ctx, id, 1) })
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
	defer cancel()
	_ = x.ask.Revoke(tidy, id)
	if err != nil {
		x.Failed(what, unreachable, x.s.ofMember(err))
		return
	}
	shortest := time.Duration(reply.TTL) * time.Second
	if shortest > ttl {
		x.Warn(what, fmt.Sprintf("use --ttl %v, or a shorter --election-timeout of etcd", shortest), "etcd keeps none shorter than %v: a TTL of %v becomes that", shortest, ttl)
		return
	}
	x.Fine(what, "etcd keeps them for %v and longer", shortest)
}
