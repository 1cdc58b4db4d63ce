package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// TestServersThatOnlyResembleRedis: hazard: what such a server lacks is taken for an outage, and waited for. Here a real server answers
// our script as others do.
func TestServersThatOnlyResembleRedis(t *testing.T) {
	t.Parallel()
	without := func(field string) string {
		return `if type(reply) == 'string' then reply = reply:gsub('[\r\n]` + field + `:[^\r\n]*', '') end`
	}
	refusing := func(command, err string) string {
		return `if ({...})[1]:upper() == '` + command + `' then reply = {err = [[` + err + `]]} end`
	}
	s := servers.Redis(t, servers.RedisOptions{})
	driver, err := newStore("redis://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	for change, want := range map[string]string{
		"":                           "",
		without("evicted_keys"):      "",
		without("run_id"):            "its INFO has no run_id",
		without("master_replid"):     "its INFO has no master_replid",
		without("role"):              "its INFO has no role",
		without("redis_version"):     "its INFO has no redis_version",
		without("uptime_in_seconds"): "its INFO has no uptime_in_seconds",
		refusing("TIME", "ERR This Redis command is not allowed from script"):                      "TIME: ERR This Redis command is not allowed from script",
		refusing("INFO", "ERR This Redis command is not allowed from script"):                      "INFO replication: ERR This",
		refusing("INFO", "ERR The user executing the script can't run this command or subcommand"): "INFO replication: ERR The user",
	} {
		shadow := `local real = redis
local function pcall(...) local reply = real.pcall(...) ` + change + ` return reply end
local redis = {pcall = pcall, call = function(...)
  local reply = pcall(...)
  if type(reply) == 'table' and reply.err then error(reply.err) end
  return reply
end}
`
		text := shadow + commonText + readText
		script := func() (string, string) { return text, strings.Repeat("0", 40) }
		r, err := driver.ask(t.Context(), request{script: script, job: "job", acks: noAcks})
		if want == "" {
			if err == nil {
				_, err = driver.state("job", r)
			}
			if err != nil {
				t.Errorf("%s: %v", change, err)
			}
			continue
		}
		p, permanent := errors.AsType[*backends.PermanentError](err)
		if !permanent || !strings.Contains(err.Error(), want) || p.Hint == "" {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}

// TestServersByTurns: hazard: each of two masters behind one address is waited for, in turn and without end.
func TestServersByTurns(t *testing.T) {
	t.Parallel()
	s := new(store)
	for i, c := range []struct {
		identity   string
		quarantine time.Duration
		fails      bool
	}{
		{"a", 1, false},
		{"a", 1, false},
		{"b", 1, false},
		{"c", 1, false}, // one restart after the other
		{"c", 0, false},
		{"b", 1, false},
		{"a", 1, false},
		{"b", 1, false},
		{"a", 1, true},
		{"a", 1, true},
		{"a", 0, false},
		{"b", 1, false},
	} {
		err := s.turns("mark", &state{identity: c.identity + ":replid", quarantine: c.quarantine})
		if (err != nil) != c.fails || backends.IsPermanent(err) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
