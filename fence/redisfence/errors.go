package redisfence

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
)

// ErrUnclear is among the errors after which it is not known whether a command or script was done: it was sent, and no
// reply came.
var ErrUnclear = errors.New("it is not known whether it was done")

// CommandError says that Redis refused the caller's command or script, or that it failed there. A command has changed
// nothing then; what a script wrote before stays.
type CommandError struct {
	Misused bool // there is no such command, it has too few words, scripts may not run it, or a script is not Lua
	Err     error

	text string
}

func (e *CommandError) Error() string { return e.text }

// Unwrap returns what go-redis returned, if Redis was asked.
func (e *CommandError) Unwrap() error { return e.Err }

func misused(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &CommandError{Misused: true, Err: err, text: err.Error()}
}

const (
	rightsHint   = "the user needs +eval +evalsha +get +set, and what the command uses, on the keys leaderrun:fence:* and those written"
	passwordHint = "the user and password of the server"
	certHint     = "the server wants a client certificate that it knows"
	clusterHint  = "a Cluster is asked by a client of its own: redis+cluster://HOST,HOST"
	slotHint     = "on a Cluster the keys have the resource's name as their hash tag: {NAME}:key for resource NAME"
	strangerHint = "is this a Redis server? with TLS the URL begins with rediss://"
)

// fault is a text in an error of the server or the client library that no retry mends.
type fault struct {
	text string
	kind fence.SetupKind
	hint string
}

// faults are looked for in this order.
var faults = []fault{
	{"WRONGPASS", fence.Credentials, passwordHint},
	{"NOAUTH", fence.Credentials, passwordHint},
	{"ERR invalid password", fence.Credentials, passwordHint},
	{"without any password configured", fence.Credentials, passwordHint},
	{"no password is set", fence.Credentials, passwordHint},
	{"NOPERM", fence.Credentials, rightsHint},
	{"can't run this command or subcommand", fence.Credentials, rightsHint},
	{"can't access at least one of the keys", fence.Credentials, rightsHint},
	{"has no permissions to", fence.Credentials, rightsHint},
	{"o permissions to access", fence.Credentials, rightsHint},
	{"ACL failure in script", fence.Credentials, rightsHint},
	{"remote error: tls: bad certificate", fence.Credentials, certHint},
	{"remote error: tls: certificate required", fence.Credentials, certHint},
	{"remote error: tls: unknown certificate", fence.Credentials, certHint},

	{"CROSSSLOT", fence.Configuration, slotHint},
	{"hash to the same slot", fence.Configuration, slotHint},
	{"non local key", fence.Configuration, slotHint},
	{"DB index is out of range", fence.Configuration, "the server has no database of this number"},
	{"SELECT is not allowed in cluster mode", fence.Configuration, clusterHint},
	{"cluster support disabled", fence.Configuration, "this server is no Cluster: redis://HOST:PORT"},
	{"unknown command", fence.Configuration, "a fence needs EVALSHA and EVAL, on a Redis server, not a Sentinel or proxy"},
	{"redis: can't parse", fence.Configuration, strangerHint},
	{"redis: invalid reply", fence.Configuration, strangerHint},
	{"first record does not look like a TLS handshake", fence.Configuration, "this server speaks no TLS on this port: redis://"},
}

// passing are the codes of what passes: the server could not do it now, and has done nothing.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "OOM", "MISCONF", "NOREPLICAS", "BUSY",
	"ERR max number of clients",
}

// misuses are parts of what Redis says to a script that calls a command wrongly.
var misuses = []string{"command called from", "args calling", "command is not allowed from script", "Error compiling script"}

// explain tells what has to be set right, what the caller did wrong, and what passes from each other.
func (x *Resource) explain(err error, o order) error {
	// What follows repeats the arguments of AUTH.
	text, _, repeats := strings.Cut(err.Error(), ", with args beginning with")
	if repeats {
		err = errors.New(text)
	}
	_, cluster := x.client.(*redis.ClusterClient)
	if !cluster && strings.HasPrefix(text, "MOVED ") {
		return &fence.SetupError{Kind: fence.Configuration, Err: errors.New("this server is a node of a Redis Cluster"), Hint: clusterHint}
	}
	if isCertificate(err) {
		return &fence.SetupError{Kind: fence.Configuration, Err: err, Hint: "the server's certificate, and who signed it, must be what the client expects"}
	}
	for _, f := range faults {
		if strings.Contains(text, f.text) {
			return &fence.SetupError{Kind: f.kind, Err: err, Hint: f.hint}
		}
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return refusal(reply, text)
	}
	if o.wants == "raise" || notSent(err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrUnclear)
}

// refusal is the error of a server that answered.
func refusal(err error, text string) error {
	for _, code := range passing { // servers before Redis 7 quote it
		if strings.HasPrefix(text, code+" ") || strings.Contains(text, "-"+code+" ") {
			return err
		}
	}
	failed := &CommandError{Err: err, text: text}
	for _, m := range misuses {
		failed.Misused = failed.Misused || strings.Contains(text, m)
	}
	return failed
}

func isCertificate(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	return unverified || other
}

// notSent says whether an error came before anything was sent.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}
