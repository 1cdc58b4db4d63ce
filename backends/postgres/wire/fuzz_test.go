package wire

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// script is a connection to a server that has said everything already.
type script struct {
	net.Conn
	mu   sync.Mutex
	says *bytes.Reader
	told bytes.Buffer
}

func (s *script) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.says.Read(b)
}

func (s *script) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told.Write(b)
}

func (s *script) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told.String()
}

func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error                     { return nil }

// FuzzLogIn: whoever says whatever lets us in by AuthenticationOk alone, and only before anything else but a request for a
// password. Who has begun SCRAM cannot let us in without the password, and nobody who listens is told it.
func FuzzLogIn(f *testing.F) {
	for _, said := range [][]string{
		{welcome, version, process, ready},
		{welcome, "NSWARNING\x00VWARNING\x00C01000\x00MText\x00\x00", "Sin_hot_standby\x00off\x00", process, ready},
		{inClear, welcome, process, ready},
		{md5Salted, welcome, process, ready},
		{sasl, challenge + "r=x,s=AAAA,i=4096", outcome + "v=AAAA", welcome, process, ready},
		{sasl, welcome, ready},
		{"v\x00\x03\x00\x00\x00\x00\x00\x00"},
		{"ESFATAL\x00VFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"},
	} {
		f.Add(written(said...), false)
		f.Add(written(said...), true)
	}
	f.Fuzz(func(t *testing.T, said []byte, encrypted bool) {
		s := &script{says: bytes.NewReader(said)}
		c := newConn("h:5432")
		err := c.logIn(t.Context(), &Config{Login: backendurl.NewLogin("u", "sesame"), Database: "d", ClearText: encrypted}, over(s, encrypted))
		told := s.heard()
		if !encrypted && (strings.Contains(told, "sesame") || strings.Contains(told, "md5")) {
			t.Errorf("who listens hears %q", told)
		}
		if err != nil {
			return
		}
		if said[0] != 'R' || !bytes.Contains(said, written(welcome)) || !bytes.Contains(said, written(ready)) {
			t.Errorf("is let in by %q", said)
		}
		if strings.Contains(told, scramMechanism) {
			t.Errorf("is let in by who does not know the password: %q", said)
		}
	})
}

// FuzzAnswer: an answer to a batch has as many results as it has statements, and takes no more memory than there is room for.
func FuzzAnswer(f *testing.F) {
	const refusal = "ESERROR\x00VERROR\x00C25006\x00Mcannot execute UPDATE in a read-only transaction\x00\x00"
	for _, said := range [][]string{
		{parsed, bound, cell, complete, parsed, bound, "CUPDATE 0\x00", ready},
		{parsed, bound, "D\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00", complete, "A\x00\x00\x00\x01c\x00p\x00", parsed, bound, cell, cell, complete, version, ready},
		{parsed, "NVWARNING\x00C01000\x00RSyncRepWaitForLSN\x00\x00", refusal, ready},
		{refusal, "ZT"},
		{parsed, bound, "D\x00\x00", "n", "s", "t"},
	} {
		f.Add(written(said...))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		c := newConn("h:5432")
		c.in = newSource(bytes.NewReader(said))
		c.front = pgproto3.NewFrontend(c.in, nil)
		var reply Reply
		answer, err := c.batch(2, &reply)
		if err == nil && answer == nil && len(reply.Rows) != 2 || len(reply.Rows) > 2 {
			t.Errorf("%+v, and %v", reply, answer)
		}
		if answer != nil && !answer.Refused() {
			t.Errorf("%v passes for a refusal", answer)
		}
		columns := 0
		for _, rows := range reply.Rows {
			for _, row := range rows {
				columns += len(row)
			}
		}
		if columns*perColumn+len(reply.Notices)*perReport > most {
			t.Errorf("%d columns and %d notices", columns, len(reply.Notices))
		}
	})
}
