package wire

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/test/suite"
)

const (
	inClear   = "R\x00\x00\x00\x03"
	md5Salted = "R\x00\x00\x00\x05salt"
	sasl      = "R\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"
	version   = "Sserver_version\x0015.9\x00"
	challenge = "R\x00\x00\x00\x0b"
	outcome   = "R\x00\x00\x00\x0c"
)

// provenBy begins SCRAM with a client, and returns what proves to it that the server knows the password.
func provenBy(conn net.Conn, password, rounds string, n int) (proof string) {
	send(conn, sasl)
	_, first, _ := strings.Cut(string(read(conn)), "n,,")
	_, nonce, _ := strings.Cut(first, "r=")
	text := "r=" + nonce + "x,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=" + rounds
	send(conn, challenge+text)
	last := string(read(conn))
	if last == "" {
		return outcome
	}
	final, _, _ := strings.Cut(last[5:], ",p=")
	key, err := pbkdf2.Key(sha256.New, password, []byte("salt"), n, sha256.Size)
	if err != nil {
		return outcome
	}
	return outcome + "v=" + base64.StdEncoding.EncodeToString(mac(mac(key, "Server Key"), first+","+text+","+final))
}

// TestLogInInOrder: what a server says in another order than the protocol's lets nobody in, whether it knows the password or not.
func TestLogInInOrder(t *testing.T) {
	t.Parallel()
	proven := func(conn net.Conn) string { return provenBy(conn, "p", "4096", 4096) }
	for name, c := range map[string]struct {
		let   bool
		serve func(conn net.Conn)
	}{
		"no password is asked for": {true, func(conn net.Conn) { send(conn, welcome, version, process, ready) }},
		"no key":                   {true, func(conn net.Conn) { send(conn, welcome, ready) }},
		"md5":                      {true, func(conn net.Conn) { send(conn, md5Salted); read(conn); send(conn, welcome, process, ready) }},
		"SCRAM":                    {true, func(conn net.Conn) { send(conn, proven(conn), welcome, version, process, ready) }},

		"ready at once":                   {false, func(conn net.Conn) { send(conn, process, ready) }},
		"a key first":                     {false, func(conn net.Conn) { send(conn, process, welcome, ready) }},
		"ready in the middle of SCRAM":    {false, func(conn net.Conn) { send(conn, sasl); read(conn); send(conn, process, ready) }},
		"let in after the challenge":      {false, func(conn net.Conn) { proven(conn); send(conn, welcome, process, ready) }},
		"a proof of another password":     {false, func(conn net.Conn) { send(conn, provenBy(conn, "q", "4096", 4096), welcome, ready) }},
		"a proof without a challenge":     {false, func(conn net.Conn) { send(conn, sasl); read(conn); send(conn, outcome+"v=", welcome, ready) }},
		"half a key":                      {false, func(conn net.Conn) { send(conn, welcome, process[:5], ready) }},
		"two keys":                        {false, func(conn net.Conn) { send(conn, welcome, process, process, ready) }},
		"another version":                 {false, func(conn net.Conn) { send(conn, "v\x00\x00\x00\x00\x00\x00\x00\x00", welcome, ready) }},
		"more than a welcome":             {false, func(conn net.Conn) { send(conn, welcome+"x", ready) }},
		"ready for something else":        {false, func(conn net.Conn) { send(conn, welcome, process, "ZT") }},
		"an answer to what was not asked": {false, func(conn net.Conn) { send(conn, welcome, parsed, bound, cell, complete, ready) }},
		"md5 without a salt":              {false, func(conn net.Conn) { send(conn, "R\x00\x00\x00\x05"); read(conn); send(conn, welcome, ready) }},
		"SCRAM with one round":            {false, func(conn net.Conn) { send(conn, provenBy(conn, "p", "1", 1), welcome, ready) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := fake(t, func(conn net.Conn) { read(conn); c.serve(conn) })
			conn, err := Dial(within(t), &cfg, cfg.Addrs[0])
			if err == nil {
				conn.Close()
			}
			if (err == nil) != c.let {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestChallengeOfAnother: a challenge that does not go on from what was asked gets no proof.
func TestChallengeOfAnother(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(nonce string) string{
		"another nonce":               func(string) string { return "r=other,s=AAAA,i=4096" },
		"nothing of the server's own": func(nonce string) string { return "r=" + nonce + ",s=AAAA,i=4096" },
		"a salt that is none":         func(nonce string) string { return "r=" + nonce + "x,s=!,i=4096" },
		"no salt":                     func(nonce string) string { return "r=" + nonce + "x,s=,i=4096" },
	} {
		answer := make(chan string, 1)
		cfg := fake(t, func(conn net.Conn) {
			read(conn)
			send(conn, sasl)
			_, nonce, _ := strings.Cut(string(read(conn)), "r=")
			send(conn, challenge+text(nonce))
			answer <- string(read(conn))
		})
		conn, err := Dial(within(t), &cfg, cfg.Addrs[0])
		if err == nil {
			conn.Close()
		}
		if _, ok := errors.AsType[*ProtocolError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		if got := <-answer; strings.Contains(got, "p=") {
			t.Errorf("%s: answered by %q", name, got)
		}
	}
}

// TestMD5IsForNoListener: the answer to MD5 is as good as the password to whoever has a few hours. It goes to this machine, or
// inside of TLS.
func TestMD5IsForNoListener(t *testing.T) {
	t.Parallel()
	for name, encrypted := range map[string]bool{"in clear": false, "inside of TLS": true} {
		ours, theirs := net.Pipe() // nobody's loopback
		said := make(chan string, 1)
		go func() {
			defer func() { _ = theirs.Close() }()
			read(theirs)
			send(theirs, md5Salted)
			said <- string(read(theirs))
			send(theirs, welcome, process, ready)
		}()
		c := newConn("h:5432")
		err := c.logIn(within(t), &Config{Login: backendurl.NewLogin("u", "p"), Database: "d"}, over(ours, encrypted))
		_ = ours.Close()
		answer := <-said
		if encrypted != (err == nil) || !encrypted && !strings.Contains(remedy.Of(err), "sslmode=verify-full") {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(answer, "md5") != encrypted {
			t.Errorf("%s: the server is told %q", name, answer)
		}
	}
}

// over is a connection that is there already; encrypted: as if inside of TLS.
func over(conn net.Conn, encrypted bool) connector {
	return func(context.Context, *Config, string, string) (net.Conn, net.Conn, error) {
		if encrypted {
			return conn, struct{ net.Conn }{conn}, nil
		}
		return conn, conn, nil
	}
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = m.Write([]byte(text)) // to memory
	return m.Sum(nil)
}

// endless is a server that sends the same again and again to whoever has asked, and says how much it has sent. It ends by itself
// far beyond what is taken.
func endless(t *testing.T, greeting func(conn net.Conn), first []string, again string) (Config, func() int) {
	t.Helper()
	var some []byte
	for len(some) < 1<<15 {
		some = append(some, written(again)...)
	}
	sent := make(chan int, 1)
	cfg := fake(t, func(conn net.Conn) {
		greeting(conn)
		read(conn)
		send(conn, first...)
		n := 0
		for n < 64<<20 {
			m, err := conn.Write(some)
			if n += m; err != nil {
				break
			}
		}
		sent <- n
	})
	return cfg, func() int { return <-sent }
}

const mostMemory = 16 << 20 // of a request, whatever is answered

// TestEndlessAnswer: hazard: a server that never comes to an end, in small messages, takes all memory, or holds a request for ever.
// The test is not parallel: it looks at the memory of the process.
func TestEndlessAnswer(t *testing.T) {
	toLogIn := func(net.Conn) {}
	for name, c := range map[string]struct {
		greeting func(conn net.Conn)
		first    []string
		again    string
	}{
		"rows":                    {greet, []string{parsed, bound}, cell},
		"a list":                  {greet, []string{parsed, bound}, cell},
		"a list of nothing":       {greet, []string{parsed, bound}, "D\x00\x00"},
		"a list of warnings":      {greet, []string{parsed, bound}, "N\x00"},
		"rows of nothing":         {greet, []string{parsed, bound}, "D\x00\x00"},
		"rows of NULLs":           {greet, []string{parsed, bound}, "D\x10\x00" + strings.Repeat("\xff\xff\xff\xff", 0x1000)},
		"warnings":                {greet, nil, "N\x00"},
		"long warnings":           {greet, nil, "NM" + strings.Repeat("x", 1000) + "\x00\x00"},
		"parameters":              {greet, nil, "Sx\x00y\x00"},
		"notifications":           {greet, nil, "A\x00\x00\x00\x01\x00\x00"},
		"parameters at the login": {toLogIn, []string{welcome}, "Sx\x00y\x00"},
		"warnings at the login":   {toLogIn, []string{welcome}, "N\x00"},
		"keys":                    {toLogIn, []string{welcome}, process},
		"a message that is large": {greet, []string{parsed, bound}, "D\x00\x01\x00\x80\x00\x00" + strings.Repeat("x", 8<<20)},
	} {
		cfg, sent := endless(t, c.greeting, c.first, c.again)
		taken := suite.Allocated(func() {
			conn, err := Dial(within(t), &cfg, cfg.Addrs[0])
			if err == nil {
				_, err = conn.Ask(within(t), []Statement{{SQL: "SELECT 'x'", List: strings.HasPrefix(name, "a list")}})
				conn.Close()
			}
			if _, ok := errors.AsType[*ProtocolError](err); !ok {
				t.Errorf("%s: %v", name, err)
			}
		})
		if n := sent(); taken > mostMemory || n >= 64<<20 {
			t.Errorf("%s: %d bytes of memory, after %d were sent", name, taken, n)
		}
	}
}

// TestEndlessWait: what nobody asked for does not hold up who waits for a notification, nor is it kept without limit, however
// often somebody asks.
func TestEndlessWait(t *testing.T) {
	for name, again := range map[string]string{
		"warnings": "N\x00", "parameters": "Sx\x00y\x00",
	} {
		cfg, sent := endless(t, greet, nil, again)
		conn := dial(t, cfg)
		_, _ = conn.conn.Write([]byte("go"))
		_, told, err := conn.Wait(within(t), enough)
		conn.Close()
		if _, ok := errors.AsType[*ProtocolError](err); !ok || told {
			t.Errorf("%s: %v, %v", name, told, err)
		}
		if n := sent(); n >= 64<<20 {
			t.Errorf("%s: %d bytes were taken", name, n)
		}
	}
	// Of notifications a part is taken with each answer, and kept.
	cfg := fake(t, func(conn net.Conn) {
		greet(conn)
		var some []string
		for range 1000 {
			some = append(some, "A\x00\x00\x00\x01\x00"+strings.Repeat("x", 500)+"\x00")
		}
		for len(read(conn)) > 5 {
			send(conn, append(some, parsed, bound, cell, complete, ready)...)
		}
	})
	conn := dial(t, cfg)
	var err error
	for range 100 {
		if _, err = conn.Ask(within(t), one); err != nil {
			break
		}
	}
	if _, ok := errors.AsType[*ProtocolError](err); !ok {
		t.Errorf("notifications that nobody takes: %v", err)
	}
}

// TestHalfAMessage: one that has begun when a wait is over is not lost, and nothing after it is misread.
func TestHalfAMessage(t *testing.T) {
	t.Parallel()
	begun, waited := make(chan struct{}), make(chan struct{})
	c := dial(t, fake(t, func(conn net.Conn) {
		greet(conn)
		whole := written("A\x00\x00\x00\x01c\x00payload\x00")
		for _, half := range [][]byte{whole[:3], whole[3:9], whole[9:]} {
			_, _ = conn.Write(half)
			begun <- struct{}{}
			<-waited
		}
		read(conn)
		send(conn, parsed, bound, cell, complete, ready)
	}))
	for range 2 {
		<-begun
		if got, told, err := c.Wait(within(t), time.Millisecond); told || err != nil || c.Broken() {
			t.Errorf("%q, %v", got, err)
		}
		waited <- struct{}{}
	}
	<-begun
	if got, told, err := c.Wait(within(t), enough); got != "payload" || !told || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	waited <- struct{}{}
	if _, err := c.Ask(within(t), one); err != nil {
		t.Error(err)
	}
}

// TestWhatIsToldIsShort: a server's text is shown to people.
func TestWhatIsToldIsShort(t *testing.T) {
	t.Parallel()
	c := dial(t, fake(t, func(conn net.Conn) {
		greet(conn)
		read(conn)
		send(conn, "ESERROR\x00C22000\x00M"+strings.Repeat("ä", 100_000)+"\x00\x00", ready)
	}))
	_, err := c.Ask(within(t), one)
	if e, ok := errors.AsType[*Error](err); !ok || !e.Refused() || len(err.Error()) > 2000 || strings.ContainsRune(err.Error(), '\ufffd') {
		t.Errorf("%.2000v", err)
	}
}
