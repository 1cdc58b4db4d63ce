package redisfence

import (
	"strings"

	"github.com/leaderrun/leaderrun/fence"
)

const (
	rightsHint   = "the user needs +eval +evalsha +get +set, and what the command uses, on the keys leaderrun:fence:* and those written"
	passwordHint = "the user and password of the server"
	certHint     = "the server wants a client certificate that it knows"
	clusterHint  = "a Cluster is asked by a client of its own: redis+cluster://HOST,HOST"
	slotHint     = "on a Cluster the keys have the resource's name as their hash tag: {NAME}:key for resource NAME"
	strangerHint = "is this a Redis server? with TLS the URL begins with rediss://"
)

// fault is a text in an error that no retry mends. Which texts are looked for depends on where the error came from.
type fault struct {
	text string
	kind fence.SetupKind
	hint string
}

// commandFaults are those of a command, ours or the caller's.
var commandFaults = []fault{
	{"NOPERM", fence.Credentials, rightsHint},
	{"can't run this command or subcommand", fence.Credentials, rightsHint},
	{"can't access at least one of the keys", fence.Credentials, rightsHint},
	{"has no permissions to", fence.Credentials, rightsHint},
	{"o permissions to access", fence.Credentials, rightsHint},
	{"ACL failure in script", fence.Credentials, rightsHint},

	{"CROSSSLOT", fence.Configuration, slotHint},
	{"hash to the same slot", fence.Configuration, slotHint},
	{"non local key", fence.Configuration, slotHint},
}

// serverFaults are those of a server that does not let us begin.
var serverFaults = []fault{
	{"protected mode", fence.Credentials, "give the server a password (requirepass) and the URL too; or, where a firewall lets only your hosts through, protected-mode no"},
	{"WRONGPASS", fence.Credentials, passwordHint},
	{"NOAUTH", fence.Credentials, passwordHint},
	{"ERR invalid password", fence.Credentials, passwordHint},
	{"without any password configured", fence.Credentials, passwordHint},
	{"no password is set", fence.Credentials, passwordHint},

	{"DB index is out of range", fence.Configuration, "the server has no database of this number"},
	{"SELECT is not allowed in cluster mode", fence.Configuration, clusterHint},
	{"cluster support disabled", fence.Configuration, "this server is no Cluster: redis://HOST:PORT"},
	{"unknown command", fence.Configuration, "a fence needs EVALSHA and EVAL, on a Redis server, not a Sentinel or proxy"},
}

// handshakeFaults are those of a TLS connection that did not come about.
var handshakeFaults = []fault{
	{"remote error: tls: bad certificate", fence.Credentials, certHint},
	{"remote error: tls: certificate required", fence.Credentials, certHint},
	{"remote error: tls: unknown certificate", fence.Credentials, certHint},
	{"first record does not look like a TLS handshake", fence.Configuration, "this server speaks no TLS on this port: redis://"},
}

// strangerFaults are those of who answers and is no Redis server. Whoever let the fence be raised is one.
var strangerFaults = []fault{
	{"redis: can't parse", fence.Configuration, strangerHint},
	{"redis: invalid reply", fence.Configuration, strangerHint},
}

// passing are the codes of what passes: the server could not do it now, and has done nothing.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "OOM", "MISCONF", "NOREPLICAS", "BUSY",
	"ERR max number of clients",
}

// misuses are parts of what Redis says to a script that calls a command wrongly.
var misuses = []string{"command called from", "args calling", "command is not allowed from script"}

func find(faults []fault, err error) (fault, bool) {
	for _, f := range faults {
		if strings.Contains(err.Error(), f.text) {
			return f, true
		}
	}
	return fault{}, false
}

func passes(err error) bool {
	for _, code := range passing { // servers before Redis 7 quote it
		if strings.HasPrefix(err.Error(), code+" ") || strings.Contains(err.Error(), "-"+code+" ") {
			return true
		}
	}
	return false
}
