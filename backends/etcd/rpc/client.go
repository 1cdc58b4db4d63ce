package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// Client asks one cluster. Its methods are safe for concurrent use and return when their context ends; a
// context without deadline waits for as long as the server does.
//
// An error that wraps an *Error is the server's answer, and Refused tells whether it leaves the outcome open.
// After any other error the outcome is unknown, unless it is one of TLS, of a handshake: then there was no request.
//
// Requests go to the endpoints in the order of the configuration: to the first, until a request ends without an
// answer that shows a member at work (no connection, time-out of the context, no leader and the like); from
// then on to the next one, and after the last to the first again. The failed request itself is not repeated. A
// context that is cancelled without having run out is no failure. Proxies that the environment names are not
// used.
type Client struct {
	endpoints *backendurl.Rotation
	members   map[string]*member
	login     *backendurl.Login
	ended     func(endpoint string, err error)
}

// New makes a client. It asks nobody.
func New(cfg Config) *Client {
	c := &Client{
		endpoints: backendurl.NewRotation(cfg.Endpoints), members: map[string]*member{},
		login: cfg.Login, ended: cfg.Ended,
	}
	if c.ended == nil {
		c.ended = func(string, error) {}
	}
	for _, addr := range cfg.Endpoints {
		c.members[addr] = newMember(addr, cfg.TLS)
	}
	return c
}

// Range reads keys.
func (c *Client) Range(ctx context.Context, r Range) (RangeReply, error) {
	var reply RangeReply
	err := c.ask(ctx, "KV/Range", r.encode(), reply.decode)
	return reply, err
}

// Txn does one branch of a transaction.
func (c *Client) Txn(ctx context.Context, t Txn) (TxnReply, error) {
	var reply TxnReply
	err := c.ask(ctx, "KV/Txn", t.encode(), reply.decode)
	return reply, err
}

// Grant makes a lease with an id that the caller has chosen, not 0. The TTL, in seconds, of the reply counts:
// the server rounds up what is too short for it. An id that is taken is refused.
func (c *Client) Grant(ctx context.Context, id, ttl int64) (LeaseReply, error) {
	return c.lease(ctx, "Lease/LeaseGrant", encodeGrant(id, ttl))
}

// KeepAlive gives a lease its whole TTL again. One that does not exist has a TTL of 0 in the reply, and is no
// error.
func (c *Client) KeepAlive(ctx context.Context, id int64) (LeaseReply, error) {
	return c.lease(ctx, "Lease/LeaseKeepAlive", encodeLease(id))
}

// Revoke ends a lease and deletes its keys.
func (c *Client) Revoke(ctx context.Context, id int64) error {
	return c.ask(ctx, "Lease/LeaseRevoke", encodeLease(id), func([]byte) error { return nil })
}

// TimeToLive returns what is left of a lease. One that does not exist has a TTL of -1 in the reply, and is no
// error.
func (c *Client) TimeToLive(ctx context.Context, id int64) (LeaseReply, error) {
	return c.lease(ctx, "Lease/LeaseTimeToLive", encodeLease(id))
}

func (c *Client) lease(ctx context.Context, method string, message encoder) (LeaseReply, error) {
	var reply LeaseReply
	err := c.ask(ctx, method, message, reply.decode)
	return reply, err
}

// Status asks the member about itself. Like every request it is refused by one that knows no leader.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, "Maintenance/Status", nil, s.decode)
	return s, err
}

// Members lists the members of the cluster.
func (c *Client) Members(ctx context.Context) (all []Member, err error) {
	err = c.ask(ctx, "Cluster/MemberList", nil, func(b []byte) error { // MemberListResponse
		return decode(b, []field{2: list(&all, mostElements, (*Member).decode)})
	})
	return all, err
}

// RotateEndpoint makes the next request go to the next endpoint; where there is only one, over a new connection.
// Requests that are on their way go on.
func (c *Client) RotateEndpoint() {
	current := c.endpoints.Current()
	if len(c.members) == 1 {
		c.members[current].renew()
		return
	}
	c.endpoints.Leave(current)
}

// Close closes all connections, which ends the requests that are on their way.
func (c *Client) Close() error {
	for _, m := range c.members {
		m.close()
	}
	return nil
}

// Watch calls f for every reply until ctx ends, the connection breaks, the server cancels the watch or the member
// loses its leader; the error says which, and is never nil. The first reply says that the watch stands: what is
// changed after it is seen. f is called by the goroutine that called Watch; while it works, replies wait.
//
// Nothing tells a watch that is idle from one whose member was stopped, until a ping has had no answer: 15 s.
func (c *Client) Watch(ctx context.Context, key, end []byte, f func(WatchReply)) error {
	message, stands := encodeWatch(key, end), false
	return c.try(httplimit.Watch(ctx), &stands, func(m *member, token string) error {
		s, err := m.send(ctx, request{method: "Watch/Watch", message: message, token: token, open: true})
		if err != nil {
			return err
		}
		err = s.end(s.watch(f))
		stands = s.stands
		return err
	})
}

func (s *stream) watch(f func(WatchReply)) error {
	for {
		b, err := s.next()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // a watch has no end of its own
		}
		if err != nil {
			return err
		}
		var w watchMessage
		switch err := w.decode(b); {
		case err != nil:
			return err
		case w.canceled:
			return cancellation(w.reason)
		}
		s.stands = true
		s.place.Leave()
		f(w.WatchReply)
	}
}

// cancellation is the error that a watch was cancelled with. The server sends it as text, some with gRPC's
// frame around it ("rpc error: code = PermissionDenied desc = etcdserver: permission denied").
func cancellation(reason string) *Error {
	reason = httplimit.Brief(reason)
	e := &Error{Code: canceled, Message: reason}
	rest, framed := strings.CutPrefix(reason, "rpc error: code = ")
	code, message, cut := strings.Cut(rest, " desc = ")
	if framed && cut {
		e.Message = message
		switch code {
		case "InvalidArgument":
			e.Code = InvalidArgument
		case "PermissionDenied":
			e.Code = PermissionDenied
		case "Unauthenticated":
			e.Code = Unauthenticated
		case "Unavailable":
			e.Code = Unavailable
		}
	}
	if e.Message == "" {
		e.Message = "watch canceled"
	}
	return e
}

// ask sends one request and reads its one reply.
func (c *Client) ask(ctx context.Context, method string, message encoder, read func([]byte) error) error {
	return c.try(ctx, new(bool), func(m *member, token string) error {
		return m.ask(ctx, request{method: method, message: message, token: token}, read)
	})
}

func (m *member) ask(ctx context.Context, r request, read func([]byte) error) error {
	s, err := m.send(ctx, r)
	if err != nil {
		return err
	}
	return s.end(s.only(read))
}

// only reads a reply that is alone on its stream. That it came whole is known by the status after it.
func (s *stream) only(read func([]byte) error) error {
	b, err := s.next()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more than one reply")
		}
		return err
	}
	return read(b)
}

// try lets send send a request to the current member, and decides whether that stays the current one. Where it
// stands, an answer has come, and the end of the context is no failure.
func (c *Client) try(ctx context.Context, stands *bool, send func(m *member, token string) error) error {
	m := c.members[c.endpoints.Current()]
	err := c.authenticated(ctx, m, send)
	if err == nil {
		c.ended(m.addr, nil)
		return nil
	}
	// The end of the context is the reason, whatever broke because of it.
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		if _, status := errors.AsType[*Error](err); !status {
			err = fmt.Errorf("%w (%w)", ctxErr, err)
		}
	}
	if *stands {
		c.ended(m.addr, nil)
	} else {
		c.ended(m.addr, err)
	}
	if shouldRotate(err) && !errors.Is(err, context.Canceled) && (!*stands || ctx.Err() == nil) {
		c.endpoints.Leave(m.addr) // unless a request beside this one has seen it, too
	}
	return err
}

// authenticated sends a request with a token of the member, if there is a user.
//
// A token may be unknown to the server: simple tokens end after five minutes without use, when the password is set
// and perhaps with the server's process, and others when users or roles change. Then the request is sent once more with a new one. That
// is no repetition of something done: a request that was refused for its token was not applied.
func (c *Client) authenticated(ctx context.Context, m *member, send func(m *member, token string) error) error {
	if c.login.User() == "" {
		return send(m, "")
	}
	token, err := c.tokenFor(ctx, m, "")
	if err != nil {
		return err
	}
	if err = send(m, token); !staleToken(err) {
		return err
	}
	if token, err = c.tokenFor(ctx, m, token); err != nil {
		return err
	}
	return send(m, token)
}

// tokenFor returns a token of a member other than the one that it did not take ("": any). Of requests that need
// one at the same time, one asks.
func (c *Client) tokenFor(ctx context.Context, m *member, not string) (string, error) {
	select {
	case m.authenticating <- struct{}{}:
		defer func() { <-m.authenticating }()
	case <-ctx.Done():
		return "", m.failure("Auth/Authenticate", ctx.Err())
	}
	user, password := c.login.Get()
	if m.token != "" && m.token != not && m.tokenOf == user {
		return m.token, nil
	}
	m.token, m.tokenOf = "", user
	r := request{method: "Auth/Authenticate", message: encodeAuthenticate(user, password)}
	err := m.ask(ctx, r, func(b []byte) (err error) {
		m.token, err = decodeToken(b)
		return err
	})
	return m.token, err
}
