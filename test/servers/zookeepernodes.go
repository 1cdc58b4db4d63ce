package servers

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"testing"
	"time"
)

// ZooKeeperError is the code with which a server refuses.
type ZooKeeperError int32

// ErrNoNode is the refusal to a request for a node that is not there.
const ErrNoNode ZooKeeperError = -101

const errNotEmpty ZooKeeperError = -111

func (e ZooKeeperError) Error() string { return fmt.Sprintf("zookeeper: error %d", int32(e)) }

// The types of requests, as in ZooDefs.OpCode.
const (
	zkCreate   = 1
	zkDelete   = 2
	zkGetData  = 4
	zkSetData  = 5
	zkChildren = 8
	zkSync     = 9
	zkClose    = -11
)

// Get returns the data of a node, as most members have them.
func (s *ZooKeeperServer) Get(nodePath string) (data string, err error) {
	err = s.ask(patience, func(c *zkSession) error {
		if _, err := c.do(zkSync, zkString(nil, nodePath)); err != nil {
			return err
		}
		r, err := c.do(zkGetData, append(zkString(nil, nodePath), 0))
		if err != nil {
			return err
		}
		data = string(r.bytes())
		return r.err
	})
	return data, err
}

// Put changes the data of a node, whatever its version is, or makes a lasting one that everybody may use.
func (s *ZooKeeperServer) Put(nodePath, data string) error {
	err := s.ask(patience, func(c *zkSession) error {
		_, err := c.do(zkSetData, zkInt(zkString(zkString(nil, nodePath), data), -1))
		if !errors.Is(err, ErrNoNode) {
			return err
		}
		body := zkString(zkString(nil, nodePath), data)
		body = zkInt(zkInt(body, 1), 31) // one entry of the list of who may: all rights
		body = zkString(zkString(body, "world"), "anyone")
		_, err = c.do(zkCreate, zkInt(body, 0))
		return err
	})
	return err
}

// Delete deletes a node and all below it, whoever they belong to.
func (s *ZooKeeperServer) Delete(nodePath string) error {
	return s.ask(patience, func(c *zkSession) error { return c.delete(nodePath) })
}

// MustDelete is Delete for a node that has to be there.
func (s *ZooKeeperServer) MustDelete(t testing.TB, nodePath string) {
	t.Helper()
	if err := s.Delete(nodePath); err != nil {
		t.Fatalf("delete %s: %v", nodePath, err)
	}
}

// zkSession is a session of one connection. It is not for use by several goroutines.
type zkSession struct {
	net.Conn
	xid int32
}

// ask opens a session, has it used, and closes it again.
func (s *ZooKeeperServer) ask(timeout time.Duration, use func(c *zkSession) error) error {
	conn, err := s.dial(timeout)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	c := &zkSession{Conn: conn}
	if err := c.open(timeout); err != nil {
		return err
	}
	if use != nil {
		err = use(c)
	}
	_, last := c.do(zkClose, nil)
	return errors.Join(err, last)
}

// dial connects to the server from where it runs.
func (s *ZooKeeperServer) dial(timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := s.place.dial(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if s.place.tls == nil {
		return c, nil
	}
	config := s.place.tls.Clone()
	config.ServerName = s.place.host()
	return tls.Client(c, config), nil
}

// open makes a new session.
func (c *zkSession) open(timeout time.Duration) error {
	q := zkInt(zkLong(zkInt(nil, 0), 0), int32(timeout.Milliseconds()))
	q = append(zkString(zkLong(q, 0), string(make([]byte, 16))), 0)
	r, err := c.roundTrip(q)
	if err != nil {
		return err
	}
	_, granted, id := r.int(), r.int(), r.long()
	if r.err == nil && (granted <= 0 || id == 0) {
		return errors.New("zookeeper: no session")
	}
	return r.err
}

// do sends a request and returns the body of the reply.
func (c *zkSession) do(kind int32, body []byte) (*zkReply, error) {
	c.xid++
	r, err := c.roundTrip(append(zkInt(zkInt(nil, c.xid), kind), body...))
	if err != nil {
		return nil, err
	}
	xid, _, code := r.int(), r.long(), r.int()
	switch {
	case r.err != nil:
		return nil, r.err
	case xid != c.xid:
		return nil, fmt.Errorf("zookeeper: reply %d to request %d", xid, c.xid)
	case code != 0:
		return nil, ZooKeeperError(code)
	}
	return r, nil
}

// roundTrip sends a packet and returns the next.
func (c *zkSession) roundTrip(q []byte) (*zkReply, error) {
	if _, err := c.Write(append(zkInt(nil, int32(len(q))), q...)); err != nil { //nolint:gosec // short
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<24 {
		return nil, fmt.Errorf("zookeeper: a packet of %d bytes", n)
	}
	r := &zkReply{rest: make([]byte, n)}
	_, err := io.ReadFull(c, r.rest)
	return r, err
}

func (c *zkSession) children(nodePath string) ([]string, error) {
	r, err := c.do(zkChildren, append(zkString(nil, nodePath), 0))
	if err != nil {
		return nil, err
	}
	var names []string
	for range r.int() {
		names = append(names, string(r.bytes()))
	}
	return names, r.err
}

// delete starts again where somebody makes nodes meanwhile: what is half deleted would be a fault that nobody asked for.
func (c *zkSession) delete(nodePath string) error {
	for {
		names, err := c.children(nodePath)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := c.delete(path.Join(nodePath, name)); err != nil && !errors.Is(err, ErrNoNode) {
				return err
			}
		}
		_, err = c.do(zkDelete, zkInt(zkString(nil, nodePath), -1))
		if !errors.Is(err, errNotEmpty) {
			return err
		}
	}
}

// The fields of requests, in ZooKeeper's encoding, Jute.

func zkInt(b []byte, n int32) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // two's complement
}

func zkLong(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // two's complement
}

func zkString(b []byte, s string) []byte {
	return append(zkInt(b, int32(len(s))), s...) //nolint:gosec // short
}

// zkReply is what is left of a reply. After the first field that is not whole there are only zeros.
type zkReply struct {
	rest []byte
	err  error
}

func (r *zkReply) take(n int) []byte {
	if r.err == nil && len(r.rest) < n {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *zkReply) int() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) } //nolint:gosec // two's complement

func (r *zkReply) long() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) } //nolint:gosec // two's complement

// bytes returns a string or a buffer; one that is null has the length -1.
func (r *zkReply) bytes() []byte {
	n := int(r.int())
	if n > len(r.rest) {
		r.err = io.ErrUnexpectedEOF
	}
	if n <= 0 || r.err != nil {
		return nil
	}
	return r.take(n)
}
