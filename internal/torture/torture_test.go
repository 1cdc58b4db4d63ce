package torture

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/testserver"
)

// What `make torture` sets.
var (
	flagDuration = flag.Duration("duration", 4*time.Minute, "how long the bed lets faults happen, on all stores at once")
	flagSeed     = flag.Uint64("seed", 0, "of all that is random (default: a new one)")
	flagStore    = flag.String("store", "", "only this store")
	flagFault    = flag.String("fault", "", "only this fault, again and again")
	flagReport   = flag.String("report", "", "a folder for the logs, and for the report in Markdown")
)

var programs Programs

func TestMain(m *testing.M) {
	// All stores side by side: the bed waits more than it works. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", strconv.Itoa(len(Stores))); err != nil {
		panic(err)
	}
	os.Exit(testserver.RunWithProgram(m, func(path string) {
		programs = Programs{Leaderrun: path, Witness: filepath.Join(filepath.Dir(path), "witness")}
		build := exec.Command("go", "build", "-o", programs.Witness, "./witness")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			os.Exit(1)
		}
	}))
}

// chosenSeed is the seed of this run.
var chosenSeed = sync.OnceValue(func() uint64 {
	if *flagSeed != 0 {
		return *flagSeed
	}
	return rand.Uint64N(1e9)
})

// Whatever happens to hosts, network and stores, two runs never overlap, and the other invariants hold.
func TestTorture(t *testing.T) {
	t.Parallel()
	var reports reports
	t.Cleanup(func() { reports.write(t) })
	for _, store := range Stores {
		if *flagStore != "" && *flagStore != store.Name {
			continue
		}
		t.Run(store.Name, func(t *testing.T) {
			t.Parallel()
			reports.add(torment(t, store))
		})
	}
}

func torment(t *testing.T, store Store) Report {
	t.Helper()
	b := New(t, store, Leaderrun, programs, chosenSeed())
	faults := slices.Concat(HostFaults, b.Running.Faults)
	if *flagFault != "" {
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f.Name != *flagFault })
	}
	log, err := b.Torment(Ordeal{Length: *flagDuration, Faults: faults, Together: *flagFault == ""})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, log)
	report := Judge(log)
	for _, v := range report.Violations {
		t.Error(v)
	}
	return report
}

// reports are those of all stores.
type reports struct {
	mu  sync.Mutex
	all []Report
}

func (r *reports) add(one Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

// write shows what came of it, and keeps it where it was asked for.
func (r *reports) write(t *testing.T) {
	t.Helper()
	text := Render(r.all, Uncovered)
	t.Logf("\n%s", text)
	if *flagReport != "" {
		save(t, "report.md", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
}

// keep writes down what happened, so that it can be judged again. What went wrong is kept wherever it was.
func keep(t *testing.T, log Log) {
	t.Helper()
	if *flagReport != "" {
		save(t, fmt.Sprintf("%s-%s-%d.json", log.Store, log.Way, log.Seed), func(w io.Writer) error { return WriteLog(w, log) })
	}
}

func save(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	if err := os.MkdirAll(*flagReport, 0o750); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(*flagReport, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
}
