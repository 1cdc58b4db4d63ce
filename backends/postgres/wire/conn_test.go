package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

var one = []Statement{{SQL: "SELECT 'x'"}}

// TestReplyThatIsNotOne: a reply that is torn, too large, or to another question is no reply, and nothing else is asked on
// its connection.
func TestReplyThatIsNotOne(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]func(conn net.Conn){
		"lost":              func(net.Conn) {},
		"torn in a message": func(conn net.Conn) { send(conn, parsed, bound); _, _ = conn.Write([]byte("D\x00\x00\x00\x20\x00")) },
		"without an end":    func(conn net.Conn) { send(conn, parsed, bound, cell, complete) },
		"ends too early":    func(conn net.Conn) { send(conn, parsed, bound, cell, ready) },
		"of two questions":  func(conn net.Conn) { send(conn, parsed, bound, cell, complete, parsed, bound, cell, complete, ready) },
		"too large":         func(conn net.Conn) { _, _ = conn.Write([]byte("D\x7f\xff\xff\xff")) },
		"too small":         func(conn net.Conn) { _, _ = conn.Write([]byte("D\x00\x00\x00\x01")) },
		"a short row":       func(conn net.Conn) { send(conn, parsed, bound, "D\x00\x02\x00\x00\x00\x01x", complete, ready) },
		"a long row":        func(conn net.Conn) { send(conn, parsed, bound, "D\x00\x01\x00\x00\x00\x01xy", complete, ready) },
		"a negative row":    func(conn net.Conn) { send(conn, parsed, bound, "D\xff\xff", complete, ready) },
		"in a transaction":  func(conn net.Conn) { send(conn, parsed, bound, cell, complete, "ZT") },
		"fatal":             func(conn net.Conn) { send(conn, "ESFATAL\x00VFATAL\x00C57P01\x00Mbye\x00\x00") },
		"a pooler's": func(conn net.Conn) {
			send(conn, "ESERROR\x00VERROR\x00C08P01\x00Mserver conn crashed?\x00\x00", ready)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, fake(t, func(conn net.Conn) {
				greet(conn)
				read(conn)
				reply(conn)
			}))
			got, err := c.Ask(within(t), one)
			if err == nil {
				t.Fatalf("is a reply: %+v", got)
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Refused() {
				t.Errorf("%v: passes for a refusal", err)
			}
			if !c.Broken() {
				t.Errorf("%v: and the connection is used again", err)
			}
			if _, err := c.Ask(within(t), one); err == nil {
				t.Error("a broken connection answers")
			}
		})
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	c := dial(t, fake(t, func(conn net.Conn) {
		read(conn)
		send(conn, welcome, "Sserver_version\x0015.9\x00", "Sin_hot_standby\x00off\x00", process, ready)
		read(conn)
		send(conn, "A\x00\x00\x00\x01channel\x00payload\x00", parsed, bound, "NSWARNUNG\x00VWARNING\x00C01000\x00MText\x00RSomewhere\x00\x00",
			cell, "D\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00", complete, parsed, bound, "CUPDATE 0\x00", "Sx\x00y\x00", ready)
		read(conn)
		send(conn, parsed, "ESFEHLER\x00VERROR\x00C23505\x00Mdoppelt\x00DDetail\x00HHint\x00RRoutine\x00\x00", ready)
		read(conn)
		send(conn, parsed, bound, cell, complete, ready)
	}))
	if c.PID() != "7" || c.Parameter("server_version") != "15.9" || c.Encrypted() {
		t.Errorf("%+v", c)
	}
	got, err := c.Ask(within(t), append(one, one...))
	if err != nil || len(got.Rows) != 2 || len(got.Rows[0]) != 2 || got.Rows[0][0][0] != Text("x") || got.Rows[0][1][0] != (Value{}) ||
		got.Rows[0][1][1] != Text("") || len(got.Rows[1]) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if len(got.Notices) != 1 || *got.Notices[0] != (Error{Severity: "WARNING", Code: "01000", Message: "Text", Routine: "Somewhere"}) {
		t.Errorf("notices %+v", got.Notices)
	}
	if payload, told, err := c.Wait(within(t), enough); payload != "payload" || !told || err != nil {
		t.Errorf("Wait: %q, %v, %v", payload, told, err)
	}
	_, err = c.Ask(within(t), one)
	if e, ok := errors.AsType[*Error](err); !ok || !e.Refused() || e.Code != "23505" {
		t.Errorf("a refusal: %v", err)
	}
	if _, err := c.Ask(within(t), one); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

// TestSilentServer: every call ends with its context, whenever the server falls silent.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	quiet := make(chan struct{})
	t.Cleanup(func() { close(quiet) })
	silent := func(conn net.Conn) {
		select {
		case <-quiet:
		case <-func() chan struct{} { // or the client goes away
			gone := make(chan struct{})
			go func() { defer close(gone); read(conn); read(conn) }()
			return gone
		}():
		}
	}
	for _, security := range []Security{Plain, Prefer, Must} {
		cfg := fake(t, silent)
		cfg.Security = security
		if _, err := Dial(soon(t), &cfg, cfg.Addrs[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial: %v", err)
		}
	}
	c := dial(t, fake(t, func(conn net.Conn) { greet(conn); silent(conn) }))
	if _, err := c.Ask(soon(t), one); !errors.Is(err, context.DeadlineExceeded) || !c.Broken() {
		t.Errorf("Ask: %v, broken %v", err, c.Broken())
	}
	c = dial(t, fake(t, func(conn net.Conn) { greet(conn); silent(conn) }))
	if _, told, err := c.Wait(within(t), 1); told || err != nil || c.Broken() {
		t.Errorf("Wait for a moment: %v, broken %v", err, c.Broken())
	}
	if _, _, err := c.Wait(soon(t), enough); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
}

// TestPasswordIsNotGivenAway: not in clear text to who did not prove who it is, and not at all to who cannot prove that
// it knows the password too.
func TestPasswordIsNotGivenAway(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(conn net.Conn){
		"clear text": func(conn net.Conn) { send(conn, "R\x00\x00\x00\x03") },
		"welcome in the middle of SCRAM": func(conn net.Conn) {
			send(conn, "R\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00")
			read(conn)
			send(conn, welcome, process, ready)
		},
		"a signature that is none": func(conn net.Conn) {
			send(conn, "R\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00")
			_, nonce, _ := strings.Cut(string(read(conn)), "r=")
			send(conn, "R\x00\x00\x00\x0br="+nonce+"x,s=AAAA,i=1")
			read(conn)
			send(conn, "R\x00\x00\x00\x0cv="+strings.Repeat("A", 43)+"=", welcome, process, ready)
		},
		"a final without a beginning": func(conn net.Conn) { send(conn, "R\x00\x00\x00\x0cv=AAAA", welcome, process, ready) },
		"another kind":                func(conn net.Conn) { send(conn, "R\x00\x00\x00\x07") },
		"another mechanism":           func(conn net.Conn) { send(conn, "R\x00\x00\x00\x0aPLAIN\x00\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan []byte, 1)
			cfg := fake(t, func(conn net.Conn) {
				read(conn)
				serve(conn)
				said <- read(conn)
			})
			cfg.Login = backendurl.NewLogin("u", "sesame")
			c, err := Dial(within(t), &cfg, cfg.Addrs[0])
			if err == nil {
				c.Close()
				t.Fatal("is let in")
			}
			if told := string(<-said); strings.Contains(err.Error()+told, "sesame") {
				t.Errorf("%v: the password is told: %q", err, told)
			}
		})
	}
}

// TestNoPlainTextBeforeTLS: what somebody between puts after the server's yes to TLS is not taken for the server's
// (CVE-2021-23222).
func TestNoPlainTextBeforeTLS(t *testing.T) {
	t.Parallel()
	cfg := fake(t, func(conn net.Conn) {
		read(conn)
		_, _ = conn.Write([]byte("S"))
		send(conn, welcome, process, ready)
		read(conn)
	})
	cfg.Security = Prefer
	if c, err := Dial(within(t), &cfg, cfg.Addrs[0]); err == nil {
		c.Close()
		t.Error("is taken for a server")
	}
}
