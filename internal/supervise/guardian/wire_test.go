package guardian

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
)

func connected(t *testing.T) (a, b *Conn) {
	t.Helper()
	pair, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = NewConn(pair[0]); err != nil {
		t.Fatal(err)
	}
	if b, err = NewConn(pair[1]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestOrderSurvivesTheChannel(t *testing.T) {
	a, b := connected(t)
	want := StartRequest{
		Deadline: lifeline.Deadline{Term: 1, Kill: -2, End: 1<<63 - 1}, Grace: time.Second, Group: 7, WatchStops: true,
		Path: "/bin/\xff", Dir: "", Socket: "/run/s", Holder: "f00", Argv: []string{"", "a\nb", strings.Repeat("x", 3<<20)}, Env: []string{"A=", "=", "\x01"},
		As: &Credential{UID: 1<<32 - 2, GID: 33, Groups: []uint32{4, 33}}, Inherit: 1,
	}
	sent := make(chan error)
	go func() { sent <- a.Send(want.Message().Encode(), nil) }()
	m, _, err := b.Receive()
	if err != nil || <-sent != nil {
		t.Fatal(err)
	}
	if got, err := m.startRequest(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got.Path, err)
	}
}

// What is no credential is an error: none at all would be the guardian's own.
func TestBrokenCredential(t *testing.T) {
	for _, text := range []string{"a", "1234567", "123456789"} {
		m := StartRequest{Path: "/p", Argv: []string{"p"}}.Message()
		m.Strings[3] = text
		if o, err := m.startRequest(); err == nil {
			t.Errorf("%q: %+v", text, o.As)
		}
	}
}

// Frames are a stream: what is read at once can be the end of one and the start of the next, with the
// descriptors of that one.
func TestDescriptorsBelongToStart(t *testing.T) {
	a, b := connected(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, m := range []Message{{Kind: Setup, Strings: []string{"/x"}}, ExtendMessage(1, lifeline.Deadline{})} {
		if err := a.Send(m.Encode(), nil); err != nil {
			t.Fatal(err)
		}
	}
	request := StartRequest{Path: "/p", Argv: []string{"p"}}
	if err := a.Send(request.Message().Encode(), []int{int(file.Fd()), int(file.Fd())}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind Kind
		fds  int
	}{{Setup, 0}, {Extend, 0}, {Start, 2}} {
		m, fds, err := b.Receive()
		if err != nil || m.Kind != want.kind || len(fds) != want.fds {
			t.Errorf("got %v with %d descriptors, %v", m.Kind, len(fds), err)
		}
		for _, fd := range fds {
			if passedOn(fd) {
				t.Errorf("descriptor %d is not close-on-exec", fd)
			}
			_ = syscall.Close(fd)
		}
	}
	a.Close()
	if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestTrySendNeverWaits(t *testing.T) {
	a, b := connected(t)
	frame := ExtendMessage(1, lifeline.Deadline{}).Encode()
	var rest []byte
	total := 0
	for len(rest) == 0 {
		var err error
		if rest, err = a.TrySend(frame, nil); err != nil {
			t.Fatal(err)
		}
		total += len(frame) - len(rest)
	}
	for range total / len(frame) {
		if m, _, err := b.Receive(); err != nil || m.Kind != Extend {
			t.Fatal(m, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(StartRequest{Path: "/p", Argv: []string{"p"}, Env: []string{"A=1"}}.Message().Encode()[lengthSize:])
	f.Add([]byte{byte(Start), 255})
	f.Add([]byte{byte(Setup), 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decode(body)
		if err != nil {
			return
		}
		_, _ = m.startRequest()
		if again, err := decode(m.Encode()[lengthSize:]); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%v became %v, %v", m, again, err)
		}
	})
}

func TestAnythingElseIsNoGuardian(t *testing.T) {
	pair, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	for _, args := range [][]string{
		nil, {Name}, {Name, "3", "4"}, {Name, ""}, {Name, "-3"}, {Name, "0"}, {Name, "99999999999999999999"}, {"leaderrun", "3"}, {Name, "run"},
	} {
		if _, ok := controlDescriptor(args); ok {
			t.Errorf("%q is taken for a guardian's", args)
		}
	}
}

func TestFileTable(t *testing.T) {
	no := noFile
	tests := []struct {
		inherited, own []int
		want           []uintptr
	}{
		{nil, nil, []uintptr{0, 1, 2}},
		{[]int{9, 255}, []int{5}, []uintptr{0, 1, 2, no, no, 5}},
		{[]int{4, 7, 255}, []int{5}, []uintptr{0, 1, 2, no, 4, 5, no, 7}},
		{[]int{8, 6, 20}, []int{4, 3}, []uintptr{0, 1, 2, 3, 4, no, 6, no, 8}},
	}
	for _, test := range tests {
		if got := FileTable(test.inherited, test.own); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v and %v: got %v, want %v", test.inherited, test.own, got, test.want)
		}
	}
}
