package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const damagedHint = "another program uses these nodes: choose another ?prefix=; or the node is damaged: who is sure that nobody runs the job deletes it (zkCli.sh deleteall)"

var (
	// errReply says that the server answered something else than it was asked.
	errReply = errors.New("the reply makes no sense")
	// errReborn says that the record that was written is not the one that was read: somebody deleted that, and what was
	// below it.
	errReborn = errors.New("the record was deleted, and another one is in its place")
)

// tooShortError says that a server grants shorter sessions than a lease needs. Another one may grant longer ones.
type tooShortError struct {
	addr           string
	granted, asked time.Duration // in whole milliseconds
}

func (e *tooShortError) Error() string {
	return fmt.Sprintf("%s grants sessions of %v at most, and a lease of %v needs as much", e.addr, e.granted, e.asked)
}

func (e *tooShortError) remedy() string {
	return fmt.Sprintf("--ttl %v or less, or maxSessionTimeout=%d in the servers' zoo.cfg", e.granted, e.asked.Milliseconds())
}

// wholeMillis rounds up to what servers count in.
func wholeMillis(ttl time.Duration) time.Duration {
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}

// classify tells what no retry mends from outcomes that are unknown: those are all that is not listed here.
func (s *store) classify(err error) error {
	if err == nil || backends.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if u, ok := errors.AsType[*backendurl.Unreached](err); ok { // each host has its own reason
		if judged := u.Judge(len(s.cfg.url.Addrs), s.unreached); judged != nil {
			return judged
		}
		return err
	}
	scheme := s.cfg.url.Scheme
	switch {
	case wire.Is(err, wire.NoAuth) && s.cfg.url.Login.User() == "":
		return backends.Denied("a user who may: "+scheme+"://USER:PASSWORD@HOST, or zkCli.sh setAcl", err)
	case wire.Is(err, wire.NoAuth):
		return backends.Denied("is the password right? else, in zkCli.sh: addauth digest USER:PASSWORD, and setAcl -R "+s.cfg.dir+" auth::cdrwa", err)
	case wire.Is(err, wire.AuthFailed, wire.InvalidACL):
		return backends.Denied("the servers must take digest authentication", err)
	case wire.Is(err, wire.NeedsSASL):
		return backends.Denied("leaderrun knows digest authentication alone: sessionRequireClientSASLAuth=false", err)
	case wire.Is(err, wire.Unimplemented):
		return backends.Misconfigured("leaderrun needs ZooKeeper 3.5 or later", "%w", err)
	}
	return err
}

// unreached classifies why one host took no connection, or not for as long as a lease needs.
func (s *store) unreached(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*tooShortError](err); ok {
		return backends.Misconfigured(e.remedy(), "%w", err)
	}
	if _, ok := errors.AsType[*wire.ProtocolError](err); ok && !s.spoken.Load() { // else one reply was broken, and that passes
		return backends.Misconfigured("is this a ZooKeeper server? with TLS the URL begins with zks://", "%w", err)
	}
	if fault := backendurl.RemediesOf("zk").Fault(err); fault != nil {
		return fault
	}
	return err
}
