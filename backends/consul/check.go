package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

const (
	farBehind = 1000            // entries of the log
	stale     = 2 * time.Second // how old what an agent knows may be

	unreachable = "does the agent run, and does a firewall let this host through?"
	leaderless  = "most servers must run and reach each other"
)

// examination is what is known while a datacenter is looked at.
type examination struct {
	checkup.Findings
	s *store
}

// Check implements backends.Store. It makes one session and destroys it.
func (s *store) Check(ctx context.Context, ttl time.Duration) []backends.Finding {
	x := &examination{s: s}
	if s.cfg.tls == nil && s.cfg.token != "" {
		x.InClear("token", s.cfg.url.Addrs, "use TLS: consuls://, or the agent on this host")
	}
	x.Readable("token file", "token", s.cfg.tokenFile)
	up := x.hosts(ctx)
	if up == nil {
		return x.Findings
	}
	one := &examination{s: up}
	one.datacenter(ctx)
	one.agent(ctx)
	if one.rights(ctx) {
		one.session(ctx, ttl)
	}
	return append(x.Findings, one.Findings...)
}

// at returns a store that asks one host alone.
func (s *store) at(host string) (*store, error) {
	cfg, url := *s.cfg, *s.cfg.url
	url.Addrs = []string{host}
	cfg.url = &url
	one := &store{cfg: &cfg, roundTripper: newRoundTripper(&cfg)}
	one.roundTripper.transport = s.roundTripper.transport
	var err error
	one.client, err = one.roundTripper.client()
	return one, err
}

// answer is what one host of the URL says.
type answer struct {
	host string
	s    *store // that asks this host alone
	status
	trip checkup.Trip
	err  error
}

type status struct {
	leader string
	date   time.Time // of the host's clock, in whole seconds
}

// hosts asks each host of the URL, and returns a driver for the first one that knows a leader.
func (x *examination) hosts(ctx context.Context) (up *store) {
	all := checkup.AskAll(ctx, x.s.cfg.url.Addrs, func(ctx context.Context, host string) answer {
		a := answer{host: host}
		if a.s, a.err = x.s.at(host); a.err == nil {
			a.status, a.trip, a.err = checkup.AskTwice(func() (status, error) { return a.s.leader(ctx) })
		}
		return a
	})
	if i := slices.IndexFunc(all, func(a answer) bool { return a.err == nil && a.leader != "" }); i >= 0 {
		up = all[i].s
	}
	var told []checkup.Answer
	for _, a := range all {
		one := checkup.Answer{Fine: fmt.Sprintf("%s %v and knows the leader %s", a.host, a.trip, a.leader)}
		switch {
		case a.err != nil:
			one.Err, one.Remedy = a.s.roundTripper.classify(a.err), unreachable // which names the host
		case a.leader == "":
			one.Err, one.Remedy = fmt.Errorf("%s knows no leader", a.host), leaderless
		}
		told = append(told, one)
	}
	x.Hosts(told)
	for _, a := range all {
		if a.err == nil && a.leader != "" {
			x.Date("the clock of "+a.host, a.date, a.trip)
		}
	}
	x.oneLeader(all)
	return up
}

// oneLeader makes sure that the hosts are of one datacenter: two would each give a job to somebody.
func (x *examination) oneLeader(all []answer) {
	leaders := map[string]bool{}
	var says []string
	for _, a := range all {
		if a.err == nil && a.leader != "" {
			leaders[a.leader] = true
			says = append(says, a.host+" follows "+a.leader)
		}
	}
	if len(leaders) > 1 {
		x.Bad("datacenter", "name hosts of one datacenter; if an election is on, try again",
			"the URL names hosts with different leaders, each of which would give a job to somebody: %s", strings.Join(says, ", "))
	}
}

// leader asks a host for the leader and for its time. It needs no rights.
func (s *store) leader(ctx context.Context) (said status, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://consul/v1/status/leader", http.NoBody)
	if err != nil {
		return said, err
	}
	resp, err := s.roundTripper.RoundTrip(q)
	if err != nil {
		return said, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return said, err
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(body, &said.leader) != nil {
		return said, s.roundTripper.notConsul()
	}
	said.date, _ = http.ParseTime(resp.Header.Get("Date"))
	return said, nil
}

// datacenter counts the servers that vote, and looks how old what an agent knows is.
func (x *examination) datacenter(ctx context.Context) {
	const what = "servers"
	peers, err := checkup.Limited(ctx, func(ctx context.Context) ([]string, error) {
		return x.s.client.Status().PeersWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
	})
	if err != nil {
		x.Failed(what, unreachable, x.s.roundTripper.classify(err))
	} else {
		x.Quorum(what, len(peers), len(peers)) // the agent on this host knows them all
	}
	meta, err := checkup.Limited(ctx, func(ctx context.Context) (*api.QueryMeta, error) {
		_, meta, err := x.s.client.KV().Keys(x.s.cfg.root(), "", (&api.QueryOptions{AllowStale: true}).WithContext(ctx))
		return meta, err
	})
	switch {
	case err != nil: // rights tells
	case !meta.KnownLeader:
		x.Bad("leader", leaderless, "the server that answered knows no leader")
	case meta.LastContact > stale:
		x.Warn("leader", "look at the network between the servers", "the server that answered has not heard of the leader for %v", meta.LastContact)
	default:
		x.Fine("leader", "the server that answered heard of it %v ago", meta.LastContact)
	}
}

// agent shows what the agent says of itself. That needs a right that leaderrun does not.
func (x *examination) agent(ctx context.Context) {
	const what = "version"
	self, err := checkup.Limited(ctx, func(ctx context.Context) (map[string]map[string]any, error) {
		var self map[string]map[string]any
		_, err := x.s.client.Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx))
		return self, err
	})
	if err != nil {
		x.Fine(what, "not shown to this token, which has no agent:read, and needs none")
		return
	}
	version, _ := self["Config"]["Version"].(string)
	node, _ := self["Config"]["NodeName"].(string)
	x.Fine(what, "Consul %s, of which no fault is known that concerns sessions", version)
	switch {
	case !checkup.IsLocal(x.s.cfg.url.Addrs[0]):
		x.Fine("agent", "on the node %s: runs end when it leaves the datacenter (consul leave)", node)
	default:
		x.Fine("agent", "on this host, as node %s", node)
	}
	x.raft(self["Stats"])
	if limit, ok := self["DebugConfig"]["HTTPMaxConnsPerClient"].(float64); ok {
		x.connections(int(limit))
	}
}

// connections says how many runs one host may have: the agent counts the connections of an address.
func (x *examination) connections(limit int) {
	const (
		what   = "connections"
		perRun = 2
		few    = 20
	)
	switch {
	case limit <= 0:
		x.Fine(what, "as many as there are")
	case limit < few:
		x.Warn(what, "raise limits.http_max_conns_per_client of the agent", "%d from one address: %d runs or standbys on one host", limit, limit/perRun)
	default:
		x.Fine(what, "%d from one address: %d runs or standbys on one host", limit, limit/perRun)
	}
}

// raft looks how far a server's store is behind its log. An agent that is no server has none.
func (x *examination) raft(stats map[string]any) {
	raft, _ := stats["raft"].(map[string]any)
	number := func(name string) int64 {
		text, _ := raft[name].(string)
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	switch behind := number("commit_index") - number("applied_index"); {
	case raft == nil:
	case behind > farBehind:
		x.Warn("log", "look at its disk", "the server is %d entries behind", behind)
	default:
		x.Fine("log", "%v, %d entries behind", raft["state"], max(behind, 0))
	}
}

// rights reads the keys of the prefix, and asks for a transaction that would write, was its condition true. Consul
// looks at the rights for all of it first.
func (x *examination) rights(ctx context.Context) bool {
	jobs, err := checkup.Limited(ctx, x.s.List)
	if err == nil {
		_, err = checkup.Limited(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.s.mayWrite(ctx) })
	}
	if err != nil {
		x.Failed(checkup.Rights, aclHint, fmt.Errorf("keys below %s: %w", x.s.cfg.root(), err))
		return false
	}
	x.Fine(checkup.Rights, "may read and write keys below %s, where %d jobs are", x.s.cfg.root(), len(jobs))
	return true
}

// mayWrite asks whether a key could be written and locked, and does neither.
func (s *store) mayWrite(ctx context.Context) error {
	key := s.cfg.dir("\x00") + recordName // no job's: a name has no zero byte
	const never = 1 << 62
	ops := api.TxnOps{
		{KV: &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: never}},
		{KV: &api.KVTxnOp{Verb: api.KVSet, Key: key, Value: []byte("doctor")}},
	}
	for _, op := range ops {
		op.KV.Namespace, op.KV.Partition = s.cfg.namespace, s.cfg.partition
	}
	ok, reply, _, err := s.client.Txn().Txn(ops, (&api.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return s.roundTripper.classify(err)
	case ok:
		return errors.New("a transaction was applied whose condition is false")
	}
	if err := rolledBack(reply.Errors); !errors.Is(err, errConflict) {
		return s.roundTripper.classify(err)
	}
	return nil
}

// session makes one as a claim does, and destroys it.
func (x *examination) session(ctx context.Context, ttl time.Duration) {
	const what = "session"
	claim := backends.Request{Job: "doctor", TTL: min(max(ttl, minTTL), maxTTL)}
	id, err := checkup.Limited(ctx, func(ctx context.Context) (string, error) { return x.s.newSession(ctx, claim) })
	if err == nil {
		_, err = checkup.Limited(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.s.renewSession(ctx, id) })
		x.s.destroy(context.WithoutCancel(ctx), id)
	}
	if err != nil {
		x.Failed(what, aclHint, err)
		return
	}
	x.Fine(what, "can be made and renewed, with a TTL of %v", claim.TTL)
}
