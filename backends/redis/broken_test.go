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
	const (
		claims = 1 << iota
		renewals
		ends
		looks
		all = claims | renewals | ends | looks
	)
	for _, c := range []struct {
		key     string
		command []any
		asked   int // by what it is met; looks are inspections and orders
	}{
		{record, []any{"hset", record, "token", "seven"}, all},
		{record, []any{"hset", record, "token", "7.5"}, all},
		{record, []any{"hset", record, "token", "nan"}, all},
		{record, []any{"hset", record, "token", "0x10"}, all},
		{record, []any{"hset", record, "token", " 7"}, all},
		{record, []any{"hset", record, "token", "9223372036854775807"}, all},
		{record, []any{"hset", record, "token", "99999999999999999999999"}, all},
		{record, []any{"hset", record, "until", "tomorrow"}, all},
		{record, []any{"hset", record, "ttl", "1e3"}, all},
		{record, []any{"hset", record, "beat", "inf"}, all},
		{record, []any{"hset", record, "released", "\x00\r\n\x1b[31m"}, all},
		{record, []any{"hset", record, "pid", "-"}, all},
		{record, []any{"hset", record, "tick", "noon"}, all},
		{record, []any{"hset", record, "tick", "60", "tick_state", "someday"}, all},
		{record, []any{"hset", record, "tick", "60"}, all},
		{record, []any{"hset", record, "schedule_at", "x"}, all},
		{record, []any{"hset", record, "runs", "nothing"}, all},
		{record, []any{"hset", record, "runs", "null"}, all},
		{record, []any{"hset", record, "runs", `{"token":1}`}, all},
		{record, []any{"hset", record, "runs", `[1]`}, all},
		{record, []any{"hset", record, "runs", `[{"token":1,"state":"done"}]`}, claims | renewals | ends},
		{record, []any{"hset", record, "runs", `[{"token":"1","holder":{"id":"x"},"state":"done"}]`}, all},
		{record, []any{"hset", record, "runs", `[{"token":NaN,"holder":{"id":"x"},"state":"done"}]`}, all},
		{record, []any{"hset", record, "refused", `[1]`}, claims | looks},
		{record, []any{"hset", record, "once", `{`}, looks},
		{record, []any{"hset", record, "orders", `[`}, looks},
		{record, []any{"hset", record, "break", `[`}, renewals | ends | looks},
		{record, []any{"hset", record, "break", `{"token":"7"}`}, renewals | ends | looks},
		{record, []any{"set", record, "x"}, all},
		{lease, []any{"set", lease, "x"}, all},
		{lease, []any{"set", lease, "x|9223372036854775807"}, all},
		{lease, []any{"rpush", lease, "x"}, all},
		{mark, []any{"hset", mark, "replicas", "many"}, all},
		{mark, []any{"hset", mark, "until", "then"}, claims | looks},
		{mark, []any{"hset", mark, "longest", "1e400"}, claims | looks},
		{mark, []any{"set", mark, "x"}, all},
	} {
		s.Do(t, "flushall")
		s.Do(t, "hset", mark, "identity", identity)
		ctx := within(t, suite.Patience)
		g := backends.Grant{Claim: claim("job", long), Token: 7, TTL: long}
		s.Do(t, "set", lease, g.Claim.Holder.ID+"|7")
		s.Do(t, "hset", record, "job", "job", "token", 7, "holder", g.Claim.Holder.ID)
		if c.asked&claims != 0 && c.key != lease {
			s.Do(t, "del", lease)
		}
		if c.command[0] != "hset" {
			s.Do(t, "del", c.key)
		}
		s.Do(t, c.command...)
		was := kept()
		try := func(step string, met int, do func() error) {
			err := do()
			if c.asked&met == 0 {
				return
			}
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || p.Hint != brokenHint || !strings.Contains(err.Error(), "key "+c.key+": ") ||
				strings.Contains(err.Error(), "script") || strings.ContainsAny(err.Error(), "\x1b\r\n\x00") {
				t.Errorf("%q: %s: %v", c.command, step, err)
			}
		}
		try("claim", claims, func() error { _, err := d.Acquire(ctx, claim("job", long)); return err })
		try("inspect", looks, func() error { _, err := d.Inspect(ctx, "job"); return err })
		try("order", looks, func() error {
			return d.Order(ctx, backends.Order{Kind: backends.Stop, Job: "job", By: g.Claim.Holder, Token: 7})
		})
		if c.asked&claims != 0 && c.key != lease {
			s.Do(t, "set", lease, g.Claim.Holder.ID+"|7")
			was = kept()
		}
		try("renew", renewals, func() error { _, err := d.Renew(ctx, g); return err })
		try("finish", ends, func() error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
		if c.asked == all && kept() != was {
			t.Errorf("%q: something was written", c.command)
		}
	}
}
