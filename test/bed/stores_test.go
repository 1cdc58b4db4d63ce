package bed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// beds is on how many beds at once the faults of a store are tried: those that make it wait for a quarantine need more.
var beds = map[string]int{"redis": 4, "sentinel": 4, "etcd": 2, "consul": 3, "consul3": 2, "kubernetes": 2, "postgres": 3, "postgres3": 2, "zookeeper3": 2}

// Each store is started, each fault of its servers strikes and is mended, and then a command runs again. A fault that has to
// end a run is mended when it has. Not beside TestBed, whose beds are as many again: servers answer too late then.
// A part of each store's faults, by chance (the names say which); all of them with -all-faults.
func TestServerFaults(t *testing.T) {
	servers.SkipShort(t)
	var all sync.WaitGroup
	defer all.Wait()
	for _, store := range Stores {
		n := max(1, beds[store.Name])
		one := rand.IntN(n)
		for i := range n {
			if i != one && !*flagAllFaults {
				continue
			}
			// Not parallel tests: they wait most of the time, and there would be no more of them at once than processors.
			all.Go(func() {
				t.Run(fmt.Sprintf("%s, %d of %d", store.Name, i+1, n), func(t *testing.T) { tryFaults(t, store, i, n, i == one) })
			})
		}
	}
}

// tryFaults tries every n-th fault of a store, and perhaps the peer.
func tryFaults(t *testing.T, store Store, first, n int, peer bool) {
	t.Helper()
	b := New(t, store, Leaderrun, Whole, programs, uint64(first+1))
	runs(t, b, "a store that is new")
	if store.Peer != nil && peer {
		runsUnder(t, b, *store.Peer)
	}
	for i := first; i < len(b.Running.Faults); i += n {
		f := b.Running.Faults[i]
		if !f.OnServer {
			t.Errorf("%s is no fault of a server", f.Name)
		}
		var done <-chan struct{}
		before := traces(t, b)
		if f.Kills {
			done = holds(t, b)
		}
		trouble := b.strike(f, "a", true)
		for tries := 0; trouble == nil; tries++ { // Sentinels refuse a failover while they are about another one
			if tries == 60 {
				t.Fatalf("%s did not happen", f.Name)
			}
			time.Sleep(time.Second) // between two tries
			trouble = b.strike(f, "a", true)
		}
		if trouble.mend == nil != f.Once {
			t.Errorf("%s: over at once: %v, but to be mended: %v", f.Name, f.Once, trouble.mend != nil)
		}
		if f.Kills {
			dies(t, f, done)
		} else if !slices.Contains(traceless, f.Name) {
			servers.Eventually(t, "something comes of it: "+f.Name, func() bool { return traces(t, b) != before })
		}
		b.mend(trouble)
		runs(t, b, f.Name)
	}
}

// traceless are the faults that neither end a run nor show in traces.
var traceless = []string{"disk full", "server restored from a backup", "failover by hand", "connections terminated", "table locked"}

// traces are what most faults change: which processes the servers' hosts have, which of them are stopped, how many files
// they may open, and what their network and the switch drop.
func traces(t *testing.T, b *Bed) string {
	t.Helper()
	var all strings.Builder
	for _, host := range append(slices.Clone(b.Store.Members), "switch") {
		pids, err := exec.Command("ip", "netns", "pids", b.Net.Name(host)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			limits, _ := os.ReadFile("/proc/" + pid + "/limits")
			_, state, _ := strings.Cut(string(stat), ") ")
			fmt.Fprintln(&all, pid, strings.HasPrefix(state, "T"), string(limits))
		}
		rules, err := exec.Command("ip", "netns", "exec", b.Net.Name(host), "nft", "list", "ruleset").Output()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(rules)
	}
	return all.String()
}

// holds starts a worker that would never end, and returns what is closed when it has ended.
func holds(t *testing.T, b *Bed) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.start("a", worker, time.Hour, 0, standby(nil))
	}()
	t.Cleanup(func() {
		b.Net.Dies("a")
		<-done
	})
	if !b.await(time.Minute, b.runs) {
		t.Fatal("the worker never began")
	}
	return done
}

func dies(t *testing.T, f Fault, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s: the run goes on", f.Name)
	}
}

// runs fails the test unless a command runs on a store after something.
func runs(t *testing.T, b *Bed, after string) {
	t.Helper()
	if err := echo(b, b.words("probe", []string{"--wait", "forever", "--backend-wait", "1m"})); err != nil {
		t.Fatalf("nothing runs after %s: %v", after, err)
	}
}

// runsUnder fails the test unless a command runs under a peer's lock.
func runsUnder(t *testing.T, b *Bed, peer Way) {
	t.Helper()
	if !slices.ContainsFunc(Ways, func(w Way) bool { return w.Name == peer.Name }) {
		t.Errorf("%s is no way", peer.Name)
	}
	if err := echo(b, peer.Words(b.Running, "probe", b.Store.TTL)); err != nil {
		t.Errorf("nothing runs under %s: %v", peer.Name, err)
	}
}

// echo runs a command on a host that says something, behind other words.
func echo(b *Bed, words []string) error {
	const text = "it runs"
	words = slices.Concat(b.Net.Where("b"), words, []string{"echo", text})
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err == nil && !strings.Contains(string(out), text) {
		err = errors.New("it did not run")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// A disk that is full takes not one byte more, and a disk that is mended takes it again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "1m")
	if !d.small {
		servers.Lack(t, "root", "no file system can be mounted")
	}
	b := &Bed{T: t}
	mend, err := d.full(&site{})[0].Strike(b, Victim{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.dir, "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a disk that is full takes a byte: %v", err)
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	// The kernel gives blocks of a file that was removed back when nobody refers to them any more, which may be a moment later.
	servers.Eventually(t, "a byte is taken again", func() bool { return os.WriteFile(path, []byte("x"), 0o600) == nil })
}

// A backup brings back what was there, and nothing of what came later.
func TestBackup(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old", "before")
	if err := copyAll(data, backup); err != nil {
		t.Fatal(err)
	}
	write("old", "after")
	write("new", "after")
	if err := errors.Join(empty(data), copyAll(backup, data)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(data, "old")); err != nil || string(text) != "before" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(data, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what came later is there: %v", err)
	}
}
