package bed

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

func TestLedgers(t *testing.T) {
	t.Parallel()
	old, late := Span{Job: "j", Token: 1, Began: 10}, Span{Job: "j", Token: 2, Began: 20}
	for _, c := range []struct {
		name   string
		writes []Span
		want   Ledger
	}{
		{"one after the other", []Span{old, old, late}, Ledger{Writes: 3}},
		{"the old one writes late", []Span{old, late, old, late}, Ledger{Writes: 4, StaleUnfenced: 1, Refused: 1}},
		{"two at once, without tokens", []Span{{Job: "j", Began: 10}, {Job: "j", Began: 20}, {Job: "j", Began: 10}}, Ledger{Writes: 3, StaleUnfenced: 1, StaleFenced: 1}},
		{"a token that went back", []Span{{Job: "j", Token: 5, Began: 10}, {Job: "j", Token: 4, Began: 20}}, Ledger{Writes: 2, Refused: 1}},
		{"a lower token, of another slot", []Span{{Job: "j", Parts: 2, Token: 5, Began: 10}, {Job: "j", Part: 1, Parts: 2, Token: 4, Began: 20}}, Ledger{}},
		{"a token given twice", []Span{old, {Job: "j", Token: 1, Began: 20}, old}, Ledger{Writes: 3, StaleUnfenced: 1, StaleFenced: 1}},
	} {
		r := &registry{ledgers: map[string]*ledger{}}
		for _, s := range c.writes {
			r.enter(s)
		}
		if got := r.books()["j"]; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A witness is known from its first words to its last.
func TestRegistryKnowsWhoIsAlive(t *testing.T) {
	t.Parallel()
	dir := servers.Dir(t)
	r, err := newRegistry(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	conns := map[boottime.Instant]net.Conn{}
	for _, at := range []boottime.Instant{10, 20} {
		conn, err := net.Dial("unix", filepath.Join(dir, beats.SocketName))
		if err != nil {
			t.Fatal(err)
		}
		conns[at] = conn
		s := Span{Job: JobWorker, Run: string(rune('a' + at)), Role: beats.RoleMain, Token: int64(at), First: at, Began: at}
		if err := json.NewEncoder(conn).Encode(s); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte{beats.Entry}); err != nil {
			t.Fatal(err)
		}
		if answer, err := bufio.NewReader(conn).ReadByte(); err != nil || answer != '+' {
			t.Fatalf("answer %c, %v", answer, err)
		}
	}
	want := func(at boottime.Instant) {
		t.Helper()
		servers.Eventually(t, "the newest that is alive", func() bool {
			s, ok := r.runOf(JobWorker, "")
			return s.First == at && ok == (at > 0)
		})
	}
	want(20)
	_ = conns[20].Close()
	want(10)
	_ = conns[10].Close()
	want(0)
	if s := r.last(JobWorker); s.First != 20 {
		t.Errorf("the newest of all began at %d", s.First)
	}
}
