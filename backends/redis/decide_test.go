package redis

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// The scripts must decide as the functions of package backends do. Here both get the same random records,
// leases, marks, servers and clocks, reachable or not, and every answer and every field written is compared.

// world is what a script finds.
type world struct {
	now     int64
	record  backends.Record
	lease   *backends.Lease
	mark    backends.Mark
	server  serverFacts
	longest time.Duration
}

// serverFacts are lines of INFO.
type serverFacts struct {
	runID, replID string
	uptime        int64
	replicas      int
	pseudo        bool // a client that copies the data looks like one more replica
	evicted       int
	promoted      bool
	commands      string
}

// fake makes a script read clock and server facts from keys.
func fake(s script) string {
	text, _ := s()
	return strings.NewReplacer(
		`redis.call('TIME')`, `cjson.decode(redis.call('GET', 'fake:time'))`,
		`redis.call('INFO', section)`, `redis.call('GET', 'fake:info:' .. section)`,
		`redis.call('PTTL', lease_key)`, `tonumber(redis.call('GET', 'fake:pttl'))`,
	).Replace(text)
}

func (w *world) expected() backends.Server {
	f := w.server
	return backends.Server{
		Identity: f.runID + ":" + f.replID, Started: w.now - f.uptime*1000 + 1000, Replicas: f.replicas, Evicted: int64(f.evicted),
		Forgot: f.evicted > 0 || f.promoted || strings.HasPrefix(w.mark.Identity, f.runID+":") ||
			!slices.Contains([]string{"get", "flushnothing"}, f.commands),
	}
}

// put writes the world into the server.
func (w *world) put(t *rapid.T, c *goredis.Client, keys []string) {
	f := w.server
	replication := fmt.Sprintf("# Replication\r\nrole:master\r\nconnected_slaves:%d\r\n", f.replicas)
	for i := range f.replicas {
		replication += fmt.Sprintf("slave%d:ip=127.0.0.1,port=%d,state=online,offset=1,lag=0\r\n", i, 7000+10*i)
	}
	if f.replicas > 0 && f.pseudo { // it was cut off and came back
		replication += "slave6:ip=127.0.0.1,port=7000,state=online,offset=1,lag=61\r\n"
	}
	if f.replicas > 1 { // others may have the same address
		replication = strings.ReplaceAll(replication, "port=7010", "port=7000")
	}
	if f.pseudo {
		replication += "slave7:ip=127.0.0.1,port=0,state=online,offset=0,lag=9\r\nslave8:ip=127.0.0.1,port=7008,state=wait_bgsave,offset=0,lag=0\r\n"
	}
	second := "-1"
	if f.promoted {
		second = "4711"
	}
	replication += fmt.Sprintf("master_replid:%s\r\nsecond_repl_offset:%s\r\n", f.replID, second)
	pipe := c.Pipeline()
	pipe.FlushAll(t.Context())
	pipe.Set(t.Context(), "fake:time", fmt.Sprintf(`["%d","%06d"]`, w.now/1000, w.now%1000*1000), 0)
	pipe.Set(t.Context(), "fake:info:server", fmt.Sprintf("# Server\r\nredis_version:7.0.15\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\n", f.runID, f.uptime), 0)
	pipe.Set(t.Context(), "fake:info:replication", replication, 0)
	pipe.Set(t.Context(), "fake:info:stats", fmt.Sprintf("# Stats\r\nevicted_keys:%d\r\n", f.evicted), 0)
	commands := "# Commandstats\r\n"
	if f.commands != "" {
		calls := "1"
		if f.commands == "flushnothing" {
			f.commands, calls = "flushall", "0" // refused by the ACL
		}
		commands += "cmdstat_" + f.commands + ":calls=" + calls + ",usec=1\r\n"
	}
	pipe.Set(t.Context(), "fake:info:commandstats", commands, 0)
	if w.lease != nil {
		pipe.Set(t.Context(), keys[0], fmt.Sprintf("%s|%d", w.lease.Holder, w.lease.Token), time.Hour)
		pipe.Set(t.Context(), "fake:pttl", w.lease.Left.Milliseconds(), 0)
	}
	h, err := hashOf(w.record)
	if err != nil {
		t.Fatal(err)
	}
	if len(h) > 0 {
		pipe.HSet(t.Context(), keys[1], map[string]string(h))
	}
	if m := w.mark; m != (backends.Mark{}) {
		pipe.HSet(t.Context(), keys[2], "identity", m.Identity, "replicas", m.Replicas, "longest", m.Longest, "until", m.Until, "evicted", m.Evicted)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// check compares what the server holds with what it should.
func check(t *rapid.T, c *goredis.Client, keys []string, record backends.Record, lease string, mark backends.Mark) {
	h, err := c.HGetAll(t.Context(), keys[1]).Result()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hash(h).record()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("record (-Go +Lua):\n%s", diff)
	}
	s, err := c.Get(t.Context(), keys[0]).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatal(err)
	}
	if s != lease {
		t.Errorf("lease: %q, want %q", s, lease)
	}
	m, err := c.HGetAll(t.Context(), keys[2]).Result()
	if err != nil {
		t.Fatal(err)
	}
	number := func(field string) int64 { n, _ := strconv.ParseInt(m[field], 10, 64); return n }
	gotMark := backends.Mark{
		Identity: m["identity"], Replicas: int(number("replicas")), Longest: number("longest"), Until: number("until"), Evicted: number("evicted"),
	}
	if diff := cmp.Diff(mark, gotMark); diff != "" {
		t.Errorf("mark (-Go +Lua):\n%s", diff)
	}
}

func TestScriptsDecideAsTheFunctionsDo(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.Redis(t, servers.RedisOptions{})
	d := open(t, "redis://"+s.Addr())
	c := goredis.NewClient(d.cfg.options(s.Addr()))
	t.Cleanup(func() { _ = c.Close() })
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("3000"); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	steps := []func(drawing, *comparison){compareClaim, compareClaim, compareClaim, compareClaim, compareRenew, compareFinish, compareAbandon, compareOrder}
	rapid.Check(t, func(rt *rapid.T) {
		draw := drawing{rt, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), rapid.Uint64().Draw(rt, "stream")))} // one alone is often the same
		x := &comparison{T: rt, c: c, keys: d.cfg.keys("job"), world: draw.world(), seen: seen}
		x.put(rt, c, x.keys)
		pick(draw, steps...)(draw, x)
	})
	t.Logf("%v", seen)
	for _, v := range []backends.Verdict{
		backends.Granted, backends.Held, backends.Vanished, backends.Quarantined, backends.Abandoned, backends.IsDone,
		backends.IsFailed, backends.IsStopped, backends.IsLost, backends.IsMissed, backends.IsEarlier, backends.Late,
		backends.Future, backends.FutureRecorded, backends.Outdated, "lost ticks", "notes", "renewed", "renew lost",
		"finished", "finish lost", "abandoned", "notes of an operator", "ordered", "overtaken",
	} {
		if seen[string(v)] == 0 {
			t.Errorf("no world led to %q", v)
		}
	}
}

// comparison is one step in both languages.
type comparison struct {
	*rapid.T
	c    *goredis.Client
	keys []string
	world
	seen map[string]int
}

func (x *comparison) view(quarantine time.Duration) backends.View {
	return backends.View{
		Record: x.record, Lease: x.lease, Now: time.UnixMilli(x.now), Proof: backends.ByUntil, Quarantine: quarantine,
	}
}

func (x *comparison) eval(s script, args ...any) []any {
	reply, err := goredis.NewScript(fake(s)).Run(x.Context(), x.c, x.keys, append([]any{"nonce"}, args...)...).Slice()
	if err != nil {
		x.Fatal(err)
	}
	return reply
}

func (x *comparison) leaseText() string {
	if x.lease == nil {
		return ""
	}
	return fmt.Sprintf("%s|%d", x.lease.Holder, x.lease.Token)
}

func compareClaim(d drawing, x *comparison) {
	c := d.claim()
	if former := x.record.Former; c.Tick != 0 && len(former) > 0 && d.r.IntN(2) == 0 { // a rollback
		c.Schedule.Fingerprint, c.Unclaimed.Fingerprint = former[0].Fingerprint, x.record.Schedule.Fingerprint
		c.Tick = x.record.Tick.Tick + 5
		c.Unclaimed.Instant = pick(d, epoch/1000-61, epoch/1000-60, epoch/1000-59, x.record.Tick.Tick+1)
		x.calm()
	}
	if x.record.Tick.Tick != 0 && c.Tick != 0 && d.r.IntN(4) == 0 {
		c.Tick = x.record.Tick.Tick
	}
	mark, quarantine := x.mark.Admit(x.expected(), x.longest, x.now, x.record.Token != 0)
	want := backends.Decide(x.view(quarantine), c)
	reply := x.eval(claimScript, claimArgs(c, x.longest)...)
	got, ok, err := claimReply(reply, c)
	if err != nil {
		x.Fatal(err)
	}
	record, lease := x.record, x.leaseText()
	if want.Changed {
		record = want.Record
	}
	if want.Grant != nil {
		x.seen["granted"]++
		x.seen["lost ticks"] += len(want.Grant.Lost)
		x.seen["notes"] += len(want.Grant.Notes)
		lease = fmt.Sprintf("%s|%d", c.Holder.ID, want.Grant.Token)
		if diff := cmp.Diff(any(*want.Grant), got, cmpopts.EquateEmpty()); diff != "" || !ok {
			x.Errorf("grant (-Go +Lua):\n%s", diff)
		}
	} else {
		x.seen[string(want.Refusal.Verdict)]++
		if diff := cmp.Diff(any(want.Refusal), got, cmpopts.EquateEmpty()); diff != "" || ok {
			x.Errorf("refusal (-Go +Lua):\n%s", diff)
		}
	}
	check(x.T, x.c, x.keys, record, lease, mark)
}

// calm makes nothing stand in the way of a claim but what the record says of ticks and schedules.
func (x *comparison) calm() {
	x.lease, x.record.Released, x.record.Ended = nil, x.record.Token, epoch-100_000
	x.mark = backends.Mark{Identity: "run1:repl1", Longest: 30_000, Evicted: int64(x.server.evicted)}
	x.put(x.T, x.c, x.keys)
}

func (x *comparison) grant(d drawing) backends.Grant {
	c := d.claim()
	switch roll := d.r.IntN(4); {
	case roll < 2 && x.lease != nil:
		c.Holder.ID = x.lease.Holder
		return backends.Grant{Claim: c, Token: x.lease.Token, TTL: c.TTL, Tick: c.Tick, Attempt: 1 + d.r.IntN(3)}
	case roll == 2 && x.record.Holder.ID != "":
		c.Holder = x.record.Holder
		return backends.Grant{Claim: c, Token: x.record.Token, TTL: c.TTL, Tick: c.Tick, Attempt: 1 + d.r.IntN(3)}
	}
	return backends.Grant{Claim: c, Token: d.token(), TTL: c.TTL, Tick: c.Tick, Attempt: 1 + d.r.IntN(3)}
}

func compareRenew(d drawing, x *comparison) {
	g := x.grant(d)
	want := backends.DecideRenew(x.view(0), g)
	reply := x.eval(renewScript, renewArgs(g)...)
	got, ok, err := renewReply(reply, g)
	if want.Lost != errors.Is(err, backends.ErrLost) || (!want.Lost && err != nil) || ok == want.Lost {
		x.Fatalf("Go: lost %v, Lua: %v", want.Lost, err)
	}
	record := want.Record
	if want.Lost {
		x.seen["renew lost"]++
		record = x.record
	} else {
		x.seen["renewed"]++
		if diff := cmp.Diff(any(want.Signal), got); diff != "" {
			x.Errorf("signal (-Go +Lua):\n%s", diff)
		}
	}
	check(x.T, x.c, x.keys, record, x.leaseText(), x.raised(!want.Lost))
}

// raised is the mark after a step that wrote: it counts the replicas that are there, and nothing else.
func (x *comparison) raised(wrote bool) backends.Mark {
	m := x.mark
	if wrote {
		m.Replicas = max(m.Replicas, x.server.replicas)
	}
	return m
}

func (x *comparison) ending(e backends.Ending) (backends.Record, string) {
	record, lease := x.record, x.leaseText()
	if e.Changed {
		record = e.Record
	}
	if e.Release {
		lease = ""
	}
	return record, lease
}

func compareFinish(d drawing, x *comparison) {
	g, o := x.grant(d), backends.Outcome{State: d.state(), Exit: d.r.IntN(3)}
	if x.record.Break != nil && d.r.IntN(2) == 0 {
		o.State = backends.Stopped
	}
	want := backends.DecideFinish(x.view(0), g, o)
	reply := x.eval(finishScript, finishArgs(g, o)...)
	kept, err := still(reply, "finished", g.Token, 5)
	if err != nil || kept == want.Lost {
		x.Fatalf("Go: lost %v, Lua: %v %v", want.Lost, kept, err)
	}
	x.seen[map[bool]string{true: "finished", false: "finish lost"}[kept]]++
	record, lease := x.ending(want)
	if b := x.record.Break; b != nil && b.Token == g.Token && want.Changed && o.State == backends.Stopped {
		x.seen["notes of an operator"]++
	}
	check(x.T, x.c, x.keys, record, lease, x.raised(kept))
}

func compareAbandon(d drawing, x *comparison) {
	c := d.claim()
	want := backends.DecideAbandon(x.view(0), c)
	x.eval(abandonScript, abandonArgs(c)...)
	x.seen["abandoned"]++
	record, lease := x.ending(want)
	check(x.T, x.c, x.keys, record, lease, x.raised(true))
}

// compareOrder checks what an order is decided on, that it is written to the letter, and that it is not where any of
// that has changed meanwhile.
func compareOrder(d drawing, x *comparison) {
	o := d.order(x.world)
	_, quarantine := x.mark.Admit(x.expected(), x.longest, x.now, x.record.Token != 0)
	s, err := readSight(x.eval(inspectScript, x.longest.Milliseconds()), "record")
	if err != nil {
		x.Fatal(err)
	}
	if diff := cmp.Diff(x.view(quarantine), s.view(), cmpopts.EquateEmpty()); diff != "" || s.mark != x.mark.Identity {
		x.Errorf("mark %q; what is decided on (-Go +Lua):\n%s", s.mark, diff)
	}
	answer := backends.DecideOrder(s.view(), o)
	if answer.Err != nil {
		return
	}
	overtaken := d.r.IntN(2) == 0
	if overtaken {
		d.overtake(x)
	}
	args, err := orderArgs(o, s, backends.Write{Record: answer.Record, Release: answer.Release})
	if err != nil {
		x.Fatal(err)
	}
	said := element(x.eval(orderScript, args...), 3)
	if overtaken {
		x.seen["overtaken"]++
		if said != "changed" {
			x.Errorf("an order that was overtaken: %q", said)
		}
		check(x.T, x.c, x.keys, x.record, x.leaseText(), x.mark)
		return
	}
	x.seen["ordered"]++
	if said != "ordered" {
		x.Fatalf("an order: %q", said)
	}
	record, lease := x.ending(backends.Ending{Record: answer.Record, Changed: true, Release: answer.Release})
	record.Job = "job"
	check(x.T, x.c, x.keys, record, lease, x.raised(true))
}

// overtake changes one thing that an order is decided on, in the world and in the server.
func (d drawing) overtake(x *comparison) {
	switch d.r.IntN(5) {
	case 0:
		x.record.Beat++
	case 1:
		x.record.Orders = append(slices.Clone(x.record.Orders), "another")
	case 2:
		x.record.Refused = append(slices.Clone(x.record.Refused), "another")
	case 3:
		x.mark.Identity += "x"
	default:
		if x.lease == nil {
			x.lease = &backends.Lease{Holder: "another", Token: d.token(), Left: time.Second}
		} else if l := *x.lease; d.r.IntN(2) == 0 {
			l.Token++
			x.lease = &l
		} else {
			x.lease = nil
		}
	}
	x.put(x.T, x.c, x.keys)
}
