package filefence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
)

func TestToken(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	token, err := filefence.OpenToken(dir, "invoices/2026")
	if err != nil {
		t.Fatal(err)
	}
	loaded := func(want int64) {
		t.Helper()
		if got, err := token.Load(t.Context()); got != want || err != nil {
			t.Errorf("got %d and %v, want %d", got, err, want)
		}
	}
	loaded(0)
	for _, c := range []struct {
		raise, want int64
		refused     bool
	}{{5, 5, false}, {5, 5, false}, {4, 5, true}, {6, 6, false}, {1763640000000, 1763640000000, false}, {7, 1763640000000, true}} {
		err := token.Raise(t.Context(), "invoices", c.raise)
		stale, ok := errors.AsType[*fence.StaleError](err)
		if ok != c.refused || ok && *stale != (fence.StaleError{Resource: "invoices", Token: c.raise, Highest: c.want}) || !ok && err != nil {
			t.Errorf("%d: %v", c.raise, err)
		}
		loaded(c.want)
	}
	for _, none := range []int64{0, math.MaxInt64} {
		if err := token.Raise(t.Context(), "invoices", none); !isSetup(err, fence.Configuration) && none != 0 || err == nil {
			t.Errorf("%d is taken for a token: %v", none, err)
		}
	}
	contains(t, dir, ".invoices%2F2026.fence", ".invoices%2F2026.fence.lock")
	if _, err := filefence.OpenToken(dir, ""); err == nil {
		t.Error("a resource without a name has a token")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := token.Load(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
}

// Hazard: the state is damaged, and read as if nobody had ever raised the fence.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "12", "0\n", "-3\n", "+3\n", " 3\n", "3 \n", "03\n", "3\n4\n", "3\r\n", "\x00\x00\x00\n", "twelve\n", "9223372036854775808\n", strings.Repeat("1", 1<<20) + "\n"} {
		t.Run(fmt.Sprintf("%.10q", text), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(memoryDir(t), "report")
			f := open(t, path, filefence.Options{})
			w := raise(t, f, 1)
			replace(t, w, "old")
			if err := os.WriteFile(f.State(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := w.Replace(t.Context(), write("new")); !isSetup(err, fence.Configuration) {
				t.Errorf("a write: %v", err)
			}
			if _, err := f.Raise(t.Context(), fence.Run{Token: 100}); !isSetup(err, fence.Configuration) || !strings.Contains(err.Error(), f.State()) {
				t.Errorf("a newer run: %v", err)
			}
			holds(t, path, "old")
			holds(t, f.State(), text)
		})
	}
}

func holdLock(t *testing.T, path string) (release func()) {
	t.Helper()
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { lock.Close() }
}

// Hazard: who is stopped with the lock keeps others waiting without an end or a word.
func TestLockIsHeld(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	path := filepath.Join(dir, "report")
	f := open(t, path, filefence.Options{LockWait: -1})
	release := holdLock(t, f.Lock())
	_, err := f.Raise(t.Context(), fence.Run{Token: 1})
	if setup, ok := errors.AsType[*fence.SetupError](err); err == nil || ok || !strings.Contains(err.Error(), f.Lock()) {
		t.Errorf("not waited for: %v, %v", err, setup)
	}
	f = open(t, path, filefence.Options{LockWait: 20 * time.Millisecond})
	if _, err := f.Raise(t.Context(), fence.Run{Token: 1}); err == nil || !strings.Contains(err.Error(), "for 20ms") {
		t.Errorf("waited for: %v", err)
	}
	f = open(t, path, filefence.Options{LockWait: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := f.Raise(ctx, fence.Run{Token: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("until the context ends: %v", err)
	}
	contains(t, dir, ".report.fence.lock")
	raised := make(chan error)
	go func() {
		_, err := f.Raise(t.Context(), fence.Run{Token: 1})
		raised <- err
	}()
	release()
	if err := <-raised; err != nil {
		t.Error(err)
	}
	holds(t, f.State(), "1\n")
}

// Hazard: the lock file is replaced again and again, and no end of the context is seen.
func TestLockFileThatIsReplacedAllTheTime(t *testing.T) {
	t.Parallel()
	f := open(t, filepath.Join(memoryDir(t), "report"), filefence.Options{LockWait: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	f.Step(func(place string) {
		if place != "before the lock is asked for" {
			return
		}
		switch asked++; {
		case asked == 10:
			cancel()
		case asked > 1000: // and is left alone
			return
		}
		if err := os.Remove(f.Lock()); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.Raise(ctx, fence.Run{Token: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("after %d times: %v", asked, err)
	}
}

// The longest name that a file can have leaves no room for what its fence adds.
func TestLongName(t *testing.T) {
	t.Parallel()
	f := open(t, filepath.Join(memoryDir(t), strings.Repeat("x", 255)), filefence.Options{})
	replace(t, raise(t, f, 1), "new")
}
