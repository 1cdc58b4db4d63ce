package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

const (
	examineLimit = 30 * time.Second // for all requests
	serverLimit  = 8 * time.Second  // for those to one server

	unreachable = "is the server up, does it listen there (bind), and does a firewall let this host through?"
	oldest      = 5 // version of Redis
)

// examination is what is known while a store is looked at.
type examination struct {
	checkup.Findings
	s   *store
	job string // nobody's, for keys to try
}

// facts are the lines of INFO.
type facts map[string]string

func parseFacts(info string) facts {
	f := facts{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f
}

// int reads a number; what is missing is 0.
func (f facts) int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}

// Check implements backends.Store. A key that nobody knows is written and removed in one script.
func (s *store) Check(ctx context.Context, _ time.Duration) []backends.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	x := &examination{s: s, job: nobodysJob + s.nonce}
	p, err := s.use()
	if err != nil {
		x.Failed(checkup.Reachable, unreachable, err)
		return x.Findings
	}
	found, err := panics.Await(ctx, func() (checkup.Findings, error) { // the client library cannot be interrupted
		defer p.release()
		x.all(ctx, p)
		return x.Findings, nil
	})
	if err != nil {
		found.Failed(checkup.Reachable, unreachable, err)
	}
	return found
}

func (x *examination) all(ctx context.Context, p *connPool) {
	c := x.s.cfg
	if c.TLS == nil && c.Login.Password() != "" && c.Network == "tcp" {
		x.InClear("password", c.Addrs, "use TLS: rediss://")
	}
	if c.Kind == redisurl.Sentinel {
		x.sentinels(ctx)
	}
	masters, err := p.all(ctx)
	if err != nil {
		x.Failed(checkup.Reachable, unreachable, classify(c, err))
		return
	}
	if c.Kind != redisurl.Cluster {
		x.alone(ctx, masters[0])
		return
	}
	x.cluster(ctx, p, masters)
}

// alone examines the one master.
func (x *examination) alone(ctx context.Context, c *goredis.Client) {
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	f, ok := x.server(ctx, c)
	if !ok {
		return
	}
	if x.rights(ctx, c) {
		x.mark(ctx, c, f)
	}
}

// cluster examines every master, and tells of each what is not as it should be.
func (x *examination) cluster(ctx context.Context, p *connPool, masters []*goredis.Client) {
	served := 0
	p.mu.Lock()
	for _, r := range p.slots {
		served += r.end - r.start + 1
	}
	p.mu.Unlock()
	if served < slotCount {
		x.Bad("cluster", "redis-cli --cluster fix", "%d of %d slots have no master: the jobs there do not run", slotCount-served, slotCount)
	} else {
		x.Fine("cluster", "%d masters have all slots", len(masters))
	}
	for _, c := range masters {
		node := &examination{s: x.s, job: p.jobAt(c.Options().Addr)}
		at, cancel := context.WithTimeout(ctx, serverLimit)
		if f, ok := node.server(at, c); ok {
			if node.rights(at, c) {
				node.replicas(at, c, f, 0)
			}
		}
		cancel()
		for _, f := range node.Findings {
			told := f.What == checkup.Reachable || f.What == "replicas" || f.What == checkup.Rights
			if told || f.Grade != backends.Fine {
				if !strings.Contains(f.Why, c.Options().Addr) {
					f.Why = c.Options().Addr + ": " + f.Why
				}
				x.Findings = append(x.Findings, f)
			}
		}
	}
}

// server examines what one server says about itself, and whether there is more to ask.
func (x *examination) server(ctx context.Context, c *goredis.Client) (facts, bool) {
	addr := c.Options().Addr
	info, err := c.Info(ctx).Result()
	if err != nil {
		x.Failed(checkup.Reachable, unreachable, fmt.Errorf("%s: %w", addr, classify(x.s.cfg, err)))
		return nil, false
	}
	f := parseFacts(info)
	clock, trip, err := checkup.AskTwice(func() (time.Time, error) { return c.Time(ctx).Result() })
	if err == nil {
		x.Fine(checkup.Reachable, "%s %v", addr, trip)
	} else { // rights tells why
		x.Fine(checkup.Reachable, "%s answers", addr)
	}
	if !x.version(f) || !x.role(f) {
		return nil, false
	}
	x.persistence(ctx, c, f)
	x.eviction(f)
	x.connections(f)
	if err == nil {
		x.Offset("the server's clock", trip.Offset(clock), trip.Took/2)
	}
	return f, true
}

func (x *examination) version(f facts) bool {
	const what = "version"
	name, version := "Redis", f["redis_version"]
	if v := f["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	major, _, _ := strings.Cut(f["redis_version"], ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		x.Bad(what, "leaderrun needs Redis 5 or Valkey", "%s %s is too old", name, version)
		return false
	}
	x.Fine(what, "%s %s, of which no fault is known that concerns leases", name, version)
	return true
}

// role says whether this is the server to write to, and by a URL of its kind.
func (x *examination) role(f facts) bool {
	const what = "role"
	clustered := f["cluster_enabled"] == "1" || f["redis_mode"] == "cluster"
	switch {
	case f["redis_mode"] == "sentinel":
		x.Bad(what, "redis+sentinel://HOST,HOST,HOST/MASTER", "this is a Sentinel, which keeps no data")
	case clustered && x.s.cfg.Kind != redisurl.Cluster:
		x.Bad(what, clusterHint, "this server is a node of a Redis Cluster")
	case f["role"] == "":
		x.Failed(what, kinHint, lacks("role"))
	case f["role"] != "master":
		x.Bad(what, fmt.Sprintf("name the master, %s:%s, or use redis+sentinel://HOST,HOST/MASTER", f["master_host"], f["master_port"]),
			"this is a replica, which takes no leases")
	case f["loading"] == "1":
		x.Bad(what, "wait until it has", "the server has not loaded its data yet")
	default:
		x.Fine(what, "master")
		return true
	}
	return false
}

// persistence says what a restart forgets. That one runs at a time does not hang on it.
func (x *examination) persistence(ctx context.Context, c *goredis.Client, f facts) {
	const (
		what   = "persistence"
		remedy = "appendonly yes"
		mend   = "look at the disk of the server, and at its log"
	)
	logged := f["aof_enabled"] == "1"
	switch {
	case logged && f["aof_last_write_status"] == "err":
		x.Bad(what, mend, "the append-only file cannot be written: the server takes no writes")
	case !logged && f["rdb_last_bgsave_status"] == "err":
		x.Bad(what, mend, "the last snapshot failed: the server may take no writes (stop-writes-on-bgsave-error)")
	case logged:
		x.Fine(what, "append-only file: records survive a restart")
	default:
		// leaderrun's rights do not include CONFIG; where it may be asked, it tells whether there are snapshots.
		save, err := c.ConfigGet(ctx, "save").Result()
		if err == nil && save["save"] == "" {
			x.Warn(what, remedy, "none: a restart forgets which ticks and keys were run, and the history")
			return
		}
		x.Warn(what, remedy, "no append-only file: a restart forgets what was run since the last snapshot (%s changes)", f["rdb_changes_since_last_save"])
	}
}

func (x *examination) eviction(f facts) {
	const (
		what   = "eviction"
		remedy = "maxmemory-policy noeviction, or a Redis of its own"
		nearly = 0.9
	)
	limit, policy := f.int("maxmemory"), f["maxmemory_policy"]
	switch {
	case policy == "":
		x.Warn(what, remedy, "the server does not say whether it evicts keys")
	case policy != "noeviction" && limit == 0:
		x.Warn(what, remedy, "%s, and no maxmemory yet: once there is one, records or leases may be evicted", policy)
	case strings.HasPrefix(policy, "volatile-"):
		x.Bad(what, remedy, "%s: leases may be evicted, which ends their runs", policy)
	case policy != "noeviction":
		x.Bad(what, remedy, "%s: records and leases may be evicted, which stops runs and forgets ticks", policy)
	case f.int("evicted_keys") > 0:
		x.Warn(what, "look whether jobs have lost their records: leaderrun status",
			"noeviction now, but %s keys were evicted since the server started", f["evicted_keys"])
	case limit > 0 && float64(f.int("used_memory")) > nearly*float64(limit):
		x.Warn(what, "raise maxmemory: a job takes about 6 kB", "%d of %d bytes are used: with none left nothing is granted", f.int("used_memory"), limit)
	default:
		x.Fine(what, "noeviction")
	}
}

func (x *examination) connections(f facts) {
	const what = "connections"
	limit, used := f.int("maxclients"), f.int("connected_clients")
	switch {
	case limit == 0: // before Redis 6.2
	case used > limit-limit/5:
		x.Warn(what, "raise maxclients: a run needs one connection, a standby two", "%d of %d are in use", used, limit)
	default:
		x.Fine(what, "%d of %d are in use", used, limit)
	}
}
