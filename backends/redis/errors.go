package redis

import (
	"errors"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

const (
	aclHint     = "the rights that leaderrun needs are one line: docs/backends.md, section Redis"
	clusterHint = "use redis+cluster://HOST:PORT,HOST:PORT"
	brokenHint  = "look at it with redis-cli, and mend it; or delete it while no run of the job is on; if it is another program's, choose another ?prefix="
	kinHint     = "leaderrun needs Redis 5 or Valkey, and no service that only speaks their protocol: docs/backends.md, section Managed services"
	prefixHint  = "another program uses these keys: choose another ?prefix="
)

// fault is a text in an error of the server or the client library that no retry mends.
type fault struct {
	text string
	kind backends.PermanentKind
	hint string
}

// faults are looked for in this order. What is not listed is an unknown outcome: READONLY, LOADING,
// MASTERDOWN, CLUSTERDOWN, TRYAGAIN, OOM, MISCONF, NOREPLICAS, timeouts and broken connections all pass.
var faults = []fault{
	{"protected mode", backends.Credentials, "give the server a password (requirepass) and the URL too: redis://:PASSWORD@HOST; or, where a firewall lets only your hosts through, protected-mode no"},
	{"WRONGPASS", backends.Credentials, "the user and password of the backend URL; special characters in them are percent-encoded"},
	{"NOAUTH", backends.Credentials, "this server wants a password: redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"},
	{"unauthenticated", backends.Credentials, "this server wants a password: redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST"},
	{"ERR invalid password", backends.Credentials, "the password of the backend URL"},
	{"without any password configured", backends.Credentials, "this server has no password: leave it out of the backend URL"},
	{"no password is set", backends.Credentials, "this server has no password: leave it out of the backend URL"},
	{"NOPERM", backends.Credentials, aclHint},
	{"can't run this command or subcommand", backends.Credentials, aclHint},
	{"can't access at least one of the keys", backends.Credentials, aclHint},
	{"can't access at least one of the channels", backends.Credentials, aclHint},
	{"has no permissions to", backends.Credentials, aclHint},
	{"o permissions to access", backends.Credentials, aclHint},
	{"ACL failure in script", backends.Credentials, aclHint}, // Redis 7.2, Valkey

	{"not allowed after non deterministic commands", backends.Configuration, "leaderrun needs Redis 5 or Valkey"},
	{"WRONGTYPE", backends.Configuration, prefixHint},
	{"DB index is out of range", backends.Configuration, "the path of the URL is the number of a database that the server has"},
	{"SELECT is not allowed in cluster mode", backends.Configuration, clusterHint},
	{"cluster support disabled", backends.Configuration, "this server is no Cluster: use redis://HOST:PORT"},
	{"not allowed from script", backends.Configuration, kinHint},
	{"not allowed in script", backends.Configuration, kinHint},
	{"unknown command", backends.Configuration, "leaderrun needs EVALSHA, EVAL, WAIT and what docs/backends.md lists, on a Redis server, not a Sentinel or proxy"},
	{"ommand called from script", backends.Configuration, "the server's scripts lack a command: see docs/backends.md, section Redis"},
	{"redis: can't parse", backends.Configuration, "is this a Redis server? with TLS the URL begins with rediss://"},
	{"redis: invalid reply", backends.Configuration, "is this a Redis server? with TLS the URL begins with rediss://"},
}

// garbled are the faults of a server that does not speak Redis' protocol. One that has spoken it before does: then a
// reply was cut in the middle, and that passes.
var garbled = []string{"redis: can't parse", "redis: invalid reply"}

func isGarbled(err error) bool {
	return slices.ContainsFunc(garbled, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// classify tells what no retry mends from outcomes that are unknown, and takes passwords out of both: a
// server that does not know HELLO or AUTH repeats their arguments in its error.
func classify(cfg *config, err error) error {
	if err == nil || backends.IsPermanent(err) {
		return err
	}
	ofTLS := backendurl.RemediesOf("redis").Fault(err)
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with") // cut off, they are not recognised
	text = httplimit.Brief(cfg.scrub(text))
	if text != err.Error() {
		err = errors.New(text)
	}
	if cfg.Kind == redisurl.Single && (strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "CROSSSLOT")) {
		return backends.Misconfigured(clusterHint, "this server is a node of a Redis Cluster")
	}
	if _, what, ok := strings.Cut(text, brokenMark); ok {
		if i := strings.LastIndex(what, " script: "); i >= 0 { // where in our script it was
			what = what[:i]
		}
		return broken(what)
	}
	if _, what, ok := strings.Cut(text, lacksMark); ok {
		field, _, _ := strings.Cut(what, " ")
		return lacks(field)
	}
	if ofTLS != nil {
		ofTLS.Err = err // without passwords
		return ofTLS
	}
	for _, f := range faults {
		if strings.Contains(text, f.text) {
			return &backends.PermanentError{Kind: f.kind, Err: err, Hint: f.hint}
		}
	}
	return err
}

// lacksMark is what common.lua says before the name of a fact that the server's INFO does not have.
const lacksMark = "LEADERRUN-LACKS "

// lacks is the error of a server that only resembles Redis.
func lacks(field string) error {
	return backends.Misconfigured(kinHint, "this is no Redis or Valkey: its INFO has no %s", field)
}

// brokenMark is what common.lua says before the key that is broken, and why.
const brokenMark = "LEADERRUN-BROKEN key "

// broken is the error of a key that holds what leaderrun did not write: no retry mends it, and no claim may overwrite it.
func broken(what string) error {
	return backends.Misconfigured(brokenHint, "%s", "key "+what)
}

// scrub takes the passwords out of a text.
func (c *config) scrub(text string) string {
	return backendurl.Hide(c.Login.Hide(text), c.SentinelPassword)
}
