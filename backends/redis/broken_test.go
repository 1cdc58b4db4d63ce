package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestBrokenKeys: hazard: what somebody wrote into a key by hand, or another program, is told as an outage: every retry finds it
// again. It is an error that names the key and what to do, whoever asks, and nothing is written.
func TestBrokenKeys(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	lease, record, mark := keys("job")
	identity, _ := s.Do(t, "hget", mark, "identity").(string)
	kept := func() string {
		return fmt.Sprint(s.Do(t, "dump", lease), s.Do(t, "dump", record), s.Do(t, "dump", mark))
	}
	for _, c := range []struct {
		key     string
		command []any
	}{
		{record, []any{"hset", record, "token", "seven"}},
		{record, []any{"hset", record, "token", "0x10"}},
		{record, []any{"hset", record, "token", "9223372036854775807"}},
		{record, []any{"hset", record, "until", "tomorrow"}},
		{record, []any{"hset", record, "beat", "inf"}},
		{record, []any{"hset", record, "released", "\x00\r\n\x1b[31m"}},
		{record, []any{"hset", record, "holder", "-"}},
		{record, []any{"hset", record, "tick", "noon"}},
		{record, []any{"hset", record, "tick", `{"tick":60,"state":"someday"}`}},
		{record, []any{"hset", record, "schedule", `{"at":"x"}`}},
		{record, []any{"hset", record, "runs", "nothing"}},
		{record, []any{"hset", record, "runs", "null"}},
		{record, []any{"hset", record, "runs", `{"token":1}`}},
		{record, []any{"hset", record, "runs", `[{"token":1,"state":"over"}]`}},
		{record, []any{"hset", record, "once", `[{"key":"a"}]`}},
		{record, []any{"hset", record, "runs", `[{"token":"1","holder":{"id":"x"},"state":"done"}]`}},
		{record, []any{"hset", record, "once", `{`}},
		{record, []any{"hset", record, "break", `[`}},
		{record, []any{"hset", record, "break", `{"token":"7"}`}},
		{record, []any{"set", record, "x"}},
		{lease, []any{"set", lease, ""}},
		{lease, []any{"set", lease, "x|07"}},
		{lease, []any{"set", lease, "x|9223372036854775807"}},
		{lease, []any{"rpush", lease, "x"}},
		{mark, []any{"hset", mark, "replicas", "many"}},
		{mark, []any{"hset", mark, "until", "then"}},
		{mark, []any{"hset", mark, "longest", "1e400"}},
		{mark, []any{"set", mark, "x"}},
	} {
		s.Do(t, "flushall")
		s.Do(t, "hset", mark, "identity", identity)
		ctx := within(t, suite.Patience)
		g := backends.Grant{Claim: claim("job", long), Token: 7, TTL: long}
		s.Do(t, "set", lease, g.Claim.Holder.ID+"|7")
		s.Do(t, "hset", record, "job", "job", "token", 7, "holder", string(backends.Marshal(g.Claim.Holder)))
		if c.command[0] != "hset" {
			s.Do(t, "del", c.key)
		}
		s.Do(t, c.command...)
		was := kept()
		for step, do := range map[string]func() error{
			"claim":       func() error { _, err := d.Acquire(ctx, claim("job", long)); return err },
			"claim again": func() error { _, err := d.Acquire(ctx, g.Claim); return err },
			"inspect":     func() error { _, err := d.Inspect(ctx, "job"); return err },
			"order": func() error {
				return d.Order(ctx, backends.Order{Kind: backends.Stop, Job: "job", By: g.Claim.Holder, Token: 7})
			},
			"renew":   func() error { _, err := d.Renew(ctx, g); return err },
			"finish":  func() error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) },
			"abandon": func() error { return d.Abandon(ctx, claim("job", long)) },
		} {
			err := do()
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || p.Hint != brokenHint || !strings.Contains(err.Error(), "key "+c.key+": ") ||
				strings.Contains(err.Error(), "script") || strings.ContainsAny(err.Error(), "\x1b\r\n\x00") {
				t.Errorf("%q: %s: %v", c.command, step, err)
			}
		}
		if kept() != was {
			t.Errorf("%q: something was written", c.command)
		}
	}
}

// TestRenewalsDoNotReadTheRecord: hazard: a newer program writes into the record of a job that runs what this one cannot read,
// and its run ends for that.
func TestRenewalsDoNotReadTheRecord(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	_, record, _ := keys("job")
	g, _ := granted(t, d, claim("job", long))
	s.Do(t, "hset", record, "runs", "in another form", "tick", "resting")
	if _, err := d.Renew(within(t, suite.Patience), g); err != nil {
		t.Error(err)
	}
	if got := s.Do(t, "hget", record, "runs"); got != "in another form" {
		t.Errorf("a renewal wrote %q", got)
	}
}

// Hazard: a script that meets what it cannot read has written half of a claim.
func TestAScriptThatFailsHasWrittenNothing(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d := open(t, "redis://"+s.Addr())
	g, _ := granted(t, d, claim("job", long))
	finish(t, d, g)
	_, record, mark := keys("job")
	s.Do(t, "hset", mark, "longest", "+30000") // Go reads it, Lua does not
	before := fmt.Sprint(s.Do(t, "hget", record, "token"), s.Do(t, "hget", record, "released"))
	if _, err := d.Acquire(within(t, suite.Patience), claim("job", long)); !backends.IsPermanent(err) {
		t.Errorf("granted, or %v", err)
	}
	if after := fmt.Sprint(s.Do(t, "hget", record, "token"), s.Do(t, "hget", record, "released")); after != before {
		t.Errorf("token and released token were %s, and are %s", before, after)
	}
}
