package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const (
	caHint     = "?sslrootcert=FILE names the authority that signed the server's certificate, ?server-name= the name in it"
	certHint   = "this server wants a client certificate that it knows: ?sslcert=FILE&sslkey=FILE"
	prefixHint = "another program uses this table: choose another ?prefix="

	damagedHint = prefixHint + "; or the row is damaged: who is sure that nobody runs the job deletes the row"
	userHint    = "the user and password of the backend URL; special characters in them are percent-encoded"
	asciiHint   = "; of a password that is not ASCII psql may send another form of the same letters (SASLprep)"
)

// errReply says that the server answered something else than it was asked.
var errReply = errors.New("the reply makes no sense")

// errUnreplicated says that a step is on the disk of the server, and nobody waits any more for the synchronous standbys:
// after a failover it may be gone.
var errUnreplicated = errors.New("the server gave up to wait for its synchronous standby")

// hasCode says whether a server refused with one of some SQLSTATEs.
func hasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Refused() && slices.Contains(codes, e.Code)
}

// classify tells what no retry mends from outcomes that are unknown: those are all that is not listed here.
func (s *store) classify(err error) error {
	if err == nil || backends.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if u, ok := errors.AsType[*backendurl.Unreached](err); ok { // each host has its own reason
		if judged := u.Judge(len(s.cfg.wire.Addrs), s.classify); judged != nil {
			return judged
		}
		return err
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return s.answered(e, err)
	}
	return s.untrusted(err)
}

// answered classifies what the server itself says.
func (s *store) answered(e *wire.Error, err error) error {
	switch e.Code {
	case wire.InsufficientRights:
		if e.Routine == "CheckMyDatabase" { // the message is in the server's language
			return backends.Denied(s.sql.connect, err)
		}
		return backends.Denied(s.sql.grant, err)
	case wire.UndefinedDatabase:
		return backends.Misconfigured("the path of the backend URL names the database", "%w", err)
	case wire.UndefinedSchema:
		return backends.Misconfigured("CREATE SCHEMA, or another ?prefix=SCHEMA.TABLE", "%w", err)
	case wire.UndefinedFunction:
		return backends.Misconfigured("leaderrun needs PostgreSQL 10 or later, and a table of its own: ?prefix=TABLE", "%w", err)
	case wire.UndefinedColumn, wire.DatatypeMismatch, wire.WrongObjectType, wire.NoConflictTarget:
		return backends.Misconfigured(prefixHint, "the table %s is not one of leaderrun: %w", s.cfg.prefix, err)
	}
	if strings.HasPrefix(e.Code, wire.AuthenticationClass) {
		return backends.Denied(s.userHint(), err)
	}
	return err
}

func (s *store) userHint() string {
	if strings.ContainsFunc(s.cfg.url.Login.Password(), func(r rune) bool { return r >= 0x80 }) {
		return userHint + asciiHint
	}
	return userHint
}

// untrusted classifies how a connection failed before anything was asked.
func (s *store) untrusted(err error) error {
	if errors.Is(err, wire.ErrNoTLS) {
		return backends.Misconfigured("ssl = on in postgresql.conf, or ?sslmode=disable where nobody can listen", "%w", err)
	}
	if _, ok := errors.AsType[*wire.ProtocolError](err); ok && !s.spoken.Load() { // else one reply was broken, and that passes
		return backends.Misconfigured("is this a PostgreSQL server? its port is 5432 unless it is configured", "%w", err)
	}
	if fault := (backendurl.TLSRemedies{CA: caHint, Cert: certHint}).Fault(err); fault != nil {
		return fault
	}
	return err
}

// replicated looks for the warning that a commit was not waited for. Its text is in the server's language; the name of
// the function that says it is not (src/backend/replication/syncrep.c).
//
// Such a commit is an administrator's doing or our own: a write that nobody waits for any more is cancelled on the server
// (wire.Statement), so that it does not keep its row locked, for the Abandon that follows too, until the standby is back.
// That is safe because nothing is taken for granted that no standby confirmed. Who made the step counts it for nothing.
// Others see it: a refusal that goes by it gives nobody anything; whoever is granted, renews, or ends a run on top of it
// waits for a commit of their own, also where nothing is left to change (Traits.Rewrites), and that is behind it in the log, so a
// standby that has the one has the other. A failover that loses it begins another timeline, under which nobody is granted
// until a quarantine is over.
func replicated(r wire.Reply) error {
	for _, n := range r.Notices {
		if n.Routine == "SyncRepWaitForLSN" || strings.Contains(n.Message, "wait for synchronous replication") {
			return errUnreplicated
		}
	}
	return nil
}
