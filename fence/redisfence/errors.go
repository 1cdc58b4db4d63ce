package redisfence

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// ErrUnclear is among the errors after which it is not known whether a command or script was done: it was sent, and no
// reply came.
var ErrUnclear = errors.New("it is not known whether it was done")

// CommandError says that Redis refused the caller's command or script, or that it failed there. What a script wrote before
// it failed stays.
type CommandError struct {
	Misused bool            // there is no such command, it has too few words, scripts may not run it, or a script is not Lua
	Begun   bool            // a script had begun, and may have written; false: nothing was written
	Kind    fence.SetupKind // what has to be set right for a script that had begun, where its error tells; or 0
	Hint    string          // the remedy, one line; may be empty
	Err     error           // a redis.Error, if Redis was asked
}

func (e *CommandError) Error() string {
	if e.Begun {
		return e.Err.Error() + "; what the script wrote before stays"
	}
	return e.Err.Error()
}

// Unwrap returns what Redis said.
func (e *CommandError) Unwrap() error { return e.Err }

func misused(format string, args ...any) error {
	return &CommandError{Misused: true, Err: fmt.Errorf(format, args...)}
}

// serverError is what Redis said, a redis.Error.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (serverError) RedisError() {}

// explain tells the errors of a step that was not done, or of which nobody knows.
func (x *Resource) explain(err error, o order) error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return x.refused(ownText(reply.Error()))
	}
	return unanswered(err, o)
}

// maxText is how much of a server's error is told.
const maxText = 1000

// ownText is an error of the server without what is not for others to read: the arguments of AUTH, and where it happened
// in our script.
func ownText(text string) serverError {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	text, _, _ = strings.Cut(text, " script: ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return serverError(text)
}

// refused is the error of a server that did not get to what the caller wants: nothing of it was done.
func (x *Resource) refused(err serverError) error {
	_, cluster := x.client.(*redis.ClusterClient)
	if !cluster && strings.HasPrefix(string(err), "MOVED ") {
		return remedy.Misconfigured(clusterHint, "this server is a node of a Redis Cluster")
	}
	if f, ok := find(slices.Concat(serverFaults, commandFaults), err); ok {
		return &fence.SetupError{Kind: f.kind, Err: err, Hint: f.hint}
	}
	if passes(err) {
		return err
	}
	return &CommandError{Err: err}
}

// failed is the error of what the caller wants. A command that failed has changed nothing. A script may have written before,
// and its error may say anything.
func failed(err serverError, o order) error {
	f, ok := find(commandFaults, err)
	switch {
	case o.wants != "command":
		return &CommandError{Begun: true, Kind: f.kind, Hint: f.hint, Err: err}
	case ok:
		return &fence.SetupError{Kind: f.kind, Err: err, Hint: f.hint}
	case passes(err):
		return err
	}
	refusal := &CommandError{Err: err}
	for _, m := range misuses {
		refusal.Misused = refusal.Misused || strings.Contains(string(err), m)
	}
	return refusal
}

// unanswered is the error of a request without a reply.
func unanswered(err error, o order) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return remedy.Misconfigured("the server's certificate, and who signed it, must be what the client expects", "%w", err)
	}
	raises := o.wants == "raise"
	f, ok := find(handshakeFaults, err)
	if !ok && raises {
		f, ok = find(strangerFaults, err)
	}
	switch {
	case ok:
		return &fence.SetupError{Kind: f.kind, Err: err, Hint: f.hint}
	case raises, notSent(err):
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrUnclear)
}

// notSent says whether an error came before anything was sent. It does because nothing is sent again: the error is that of
// the only attempt.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}
