package zookeeper

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestAFaultOfAllServers: hazard: with the URL of three servers a wrong authority is tried for ever, and no run says what is
// wrong. Or one server whose certificate is bad ends a run that another would serve.
func TestAFaultOfAllServers(t *testing.T) {
	t.Parallel()
	suite.FaultOfAll(t, Open, "zks")
}

// TestNoZooKeeper: hazard: another server is asked for ever as if it was a ZooKeeper; or a reply of one that was cut ends a run
// that the next try would start.
func TestNoZooKeeper(t *testing.T) {
	t.Parallel()
	saying := func(text string) string {
		addr, _ := servers.ByHand(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 44))
			_, _ = io.WriteString(conn, text)
		})
		return addr
	}
	secure, _ := servers.Shaking(t, servers.NewCertificates(t).Server(t))
	for name, c := range map[string]struct {
		url       string
		permanent bool
		say       string
	}{
		"a web server":                {"zk://" + saying("HTTP/1.1 400 Bad Request\r\n\r\n"), true, "1213486160 bytes"},
		"one of two":                  {"zk://127.0.0.1:1," + saying("HTTP/1.1 400 Bad Request\r\n\r\n"), false, "127.0.0.1:1"},
		"a frame of another protocol": {"zk://" + saying("\x00\x00\x00\x02hi"), true, "makes no sense"},
		"one that hangs up":           {"zk://" + saying(""), false, "want TLS?"},
		"one that hangs up, with TLS": {"zks://" + saying(""), false, "speak TLS?"},
		"one that speaks TLS":         {"zk://" + secure, false, "want TLS?"},
	} {
		d := open(t, c.url)
		_, err := d.Acquire(t.Context(), newClaim("job"))
		p, permanent := errors.AsType[*backends.PermanentError](err)
		if err == nil || permanent != c.permanent || !strings.Contains(err.Error(), c.say) || permanent && !strings.Contains(p.Hint, "is this a ZooKeeper server?") {
			t.Errorf("%s: %v (%+v)", name, err, p)
		}
		d.store.spoken.Store(true)
		if _, err := d.Acquire(t.Context(), newClaim("job")); err == nil || backends.IsPermanent(err) {
			t.Errorf("%s, where a ZooKeeper has answered before: %v", name, err)
		}
	}
}

func number(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) } //nolint:gosec // the same bits

func text(b []byte, s string) []byte { return append(number(b, int32(len(s))), s...) } //nolint:gosec // short

// byHand starts a server that opens a session, and sends what a request is answered with; nil: it hangs up.
func byHand(t *testing.T, answer func(request []byte) []byte) string {
	t.Helper()
	addr, _ := servers.ByHand(t, func(conn net.Conn) {
		next := func() []byte {
			var length [4]byte
			if _, err := io.ReadFull(conn, length[:]); err != nil {
				return nil
			}
			frame := make([]byte, binary.BigEndian.Uint32(length[:]))
			_, _ = io.ReadFull(conn, frame)
			return frame
		}
		next()
		session := number(number(nil, 0), 15_000)                                             // version, timeout
		frame := append(text(append(session, 0, 0, 0, 0, 0, 0, 0, 7), "0123456789abcdef"), 0) // number, password, not read-only
		for frame != nil {
			_, _ = conn.Write(text(nil, string(frame)))
			request := next()
			if len(request) < 8 {
				return
			}
			frame = answer(request)
		}
	})
	return addr
}

// TestWhatIsLeftOfAFailure: hazard: what a request that failed has left in its call, which may still be being read, is taken
// for the servers of the ensemble.
func TestWhatIsLeftOfAFailure(t *testing.T) {
	t.Parallel()
	addr := byHand(t, func(request []byte) []byte {
		reply := slices.Concat(request[:4], []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}) // number, zxid, no error
		if code := binary.BigEndian.Uint32(request[4:]); code == 9 {
			return text(reply, "/leaderrun")
		}
		return text(reply, "server.1=h:2888:3888:participant\n") // and nothing of what must follow
	})
	e := open(t, "zk://"+addr).store.askServer(t.Context(), addr, wire.Session{}, 15*time.Second)
	if e.conn == nil || e.err == nil || e.servers != nil {
		t.Errorf("%+v", e)
	}
	if e.conn != nil {
		e.conn.Close()
	}
}

// TestLooksElsewhere: hazard: one of several servers is being restarted, and nobody can look at a job. What writes something
// is asked once, because nobody knows what became of it.
func TestLooksElsewhere(t *testing.T) {
	w := newWorld(t)
	w.Finish(w.d, w.Acquire(w.d, newClaim("job")))
	ending := func() string { return byHand(t, func([]byte) []byte { return nil }) }
	half := func(more string) *driver { return open(t, "zk://"+ending()+more) }
	if _, err := half(","+w.server.Addr()).Inspect(t.Context(), "job"); err != nil {
		t.Error(err)
	}
	if jobs, err := half("," + w.server.Addr()).Jobs(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("%q, %v", jobs, err)
	}
	_, err := half("").Inspect(t.Context(), "job")
	w.WantUnknown("the only server", err)
	_, err = half(","+ending()).Inspect(t.Context(), "job")
	w.WantUnknown("both", err)
	c := newClaim("job")
	c.TTL = 10 * time.Second // which the first one grants
	_, err = half(","+w.server.Addr()).Acquire(t.Context(), c)
	w.WantUnknown("a claim", err)
}
