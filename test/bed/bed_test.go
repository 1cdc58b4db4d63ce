package bed

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/leaderrun/leaderrun/internal/cli" // go test keeps a result until what it is made of changes: the program is part of that
	"github.com/leaderrun/leaderrun/test/alone"
	"github.com/leaderrun/leaderrun/test/servers"
)

// What `make bed` sets.
var (
	flagAllFaults = flag.Bool("all-faults", false, "TestServerFaults tries all faults of each store, not a part of them by chance")
	flagDuration  = flag.Duration("duration", 2*time.Minute, "how long the bed lets faults happen, on all stores at once")
	flagSeed      = flag.Uint64("seed", 0, "of all that is random (default: a new one)")
	flagCast      = flag.String("cast", "", "the jobs that hosts want, whole or divided (default: one of the two on each store, by the seed)")
	flagStore     = flag.String("store", "", "only these stores, with commas between them")
	flagFault     = flag.String("fault", "", "only this fault, again and again")
	flagEach      = flag.String("each", "", "a regular expression: each fault of TestFault that fits, once and by itself, and beside it the peers")
	flagPage      = flag.String("page", "", "the page into which TestReport puts what the logs of -report show")
	flagReport    = flag.String("report", "", "a folder for the logs, and for the report in Markdown")
)

var programs Programs

func TestMain(m *testing.M) {
	// All stores side by side: the bed waits more than it works. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", strconv.Itoa(len(Stores))); err != nil {
		panic(err)
	}
	os.Exit(servers.RunWithProgram(m, func(path string) {
		programs = Programs{Leaderrun: path, Witness: filepath.Join(filepath.Dir(path), "witness")}
	}, "../witness"))
}

// chosenCast is that of the i-th store in this run: each run has both.
func chosenCast(t *testing.T, i int) Cast {
	t.Helper()
	if *flagCast == "" {
		return Casts[(chosenSeed()+uint64(i))%uint64(len(Casts))]
	}
	for _, c := range Casts {
		if c.String() == *flagCast {
			return c
		}
	}
	t.Fatalf("there is no cast %q", *flagCast)
	return Whole
}

// chosenSeed is the seed of this run.
var chosenSeed = sync.OnceValue(func() uint64 {
	if *flagSeed != 0 {
		return *flagSeed
	}
	return rand.Uint64N(1e9)
})

// Whatever happens to hosts, network and stores, two runs never overlap, and the other invariants hold.
func TestBed(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	alone.Await()
	var reports reports
	t.Cleanup(func() { reports.write(t) })
	n := 0
	for _, store := range Stores {
		if !wanted(store) {
			continue
		}
		cast := chosenCast(t, n)
		n++
		t.Run(store.Name, func(t *testing.T) {
			t.Parallel()
			reports.add(torment(t, store, cast))
		})
	}
}

func torment(t *testing.T, store Store, cast Cast) Report {
	t.Helper()
	b := New(t, store, Leaderrun, cast, programs, chosenSeed())
	faults := b.possible(HostFaults)
	if *flagFault != "" {
		faults = slices.DeleteFunc(faults, func(f Fault) bool { return f.Name != *flagFault })
	}
	log, err := b.Torment(Ordeal{Length: *flagDuration, Faults: faults, Together: *flagFault == ""})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, "", log)
	report := Judge(log)
	for _, v := range report.Violations {
		t.Error(v)
	}
	return report
}

// Each fault by itself, once, for longer than a lease lasts; leaderrun must stand it. With the same fault on a bed of a
// peer it is shown, and no failure, what happens to that.
func TestFault(t *testing.T) {
	t.Parallel()
	if *flagEach == "" {
		return
	}
	alone.Await()
	fits := regexp.MustCompile(*flagEach)
	var results results
	t.Cleanup(func() { results.write(t) })
	for _, store := range Stores {
		if !wanted(store) {
			continue
		}
		ways := []Way{Leaderrun}
		if store.Peer != nil {
			ways = append(ways, *store.Peer)
		}
		for _, way := range ways {
			t.Run(way.Name+"/"+store.Name, func(t *testing.T) {
				t.Parallel()
				for _, f := range New(t, store, way, castOf(t, way), programs, chosenSeed()).possible(HostFaults) {
					if fits.MatchString(f.Name) {
						t.Run(f.Name, func(t *testing.T) {
							t.Parallel()
							results.add(f.Name, single(t, store, way, f.Name))
						})
					}
				}
			})
		}
	}
}

// castOf is the cast of a bed of single faults. A peer knows one job.
func castOf(t *testing.T, way Way) Cast {
	t.Helper()
	if *flagCast == "" || !way.Ticks {
		return Whole
	}
	return chosenCast(t, 0)
}

// wanted says whether a store was asked for.
func wanted(s Store) bool {
	return *flagStore == "" || slices.Contains(strings.Split(*flagStore, ","), s.Name)
}

// single lets a fault happen on a bed of its own.
func single(t *testing.T, store Store, way Way, name string) Report {
	t.Helper()
	b := New(t, store, way, castOf(t, way), programs, chosenSeed())
	all := b.possible(HostFaults)
	i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("%s has no fault %q", store.Name, name)
	}
	log, err := b.Once(all[i])
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Faults) == 0 {
		t.Error("it did not happen")
	}
	keep(t, ofSingle+strings.ReplaceAll(name, " ", "_")+"-", log)
	report := Judge(log)
	for _, v := range report.Violations {
		t.Error(v)
	}
	return report
}

// The bed sees two copies where there are two: of a lock whose holder is stopped for longer than its lease, and whose
// command lives on.
func TestBedSeesTwoCopies(t *testing.T) {
	t.Parallel()
	report := single(t, storeNamed("etcd"), EtcdctlLock, "wrapper stopped")
	if report.Overlaps.Count == 0 || report.Ledger.StaleUnfenced == 0 {
		t.Errorf("the bed saw no second copy, or no stale write: %+v", report)
	}
}

func storeNamed(name string) Store {
	return Stores[slices.IndexFunc(Stores, func(s Store) bool { return s.Name == name })]
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
	text := Render(r.all)
	t.Logf("\n%s", text)
	if *flagReport != "" {
		save(t, "report.md", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
}

// ofSingle begins the names of the logs of single faults.
const ofSingle = "single-"

// keep writes down what happened, so that it can be judged again.
func keep(t *testing.T, prefix string, log Log) {
	t.Helper()
	if *flagReport != "" {
		name := fmt.Sprintf("%s%s-%s-%s-%d.json", prefix, log.Store, strings.ReplaceAll(log.Way, " ", "_"), log.Cast, log.Seed)
		save(t, name, func(w io.Writer) error { return WriteLog(w, log) })
	}
}

// TestReport judges all logs of a folder again, and puts what they show into a page.
func TestReport(t *testing.T) {
	t.Parallel()
	if *flagPage == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(*flagReport, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs in %q: %v", *flagReport, err)
	}
	var random []Report
	singles := map[string][]Report{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		log, err := ReadLog(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if report := Judge(log); strings.HasPrefix(filepath.Base(name), ofSingle) {
			singles[log.Faults[0].Fault] = append(singles[log.Faults[0].Fault], report)
		} else {
			random = append(random, report)
		}
	}
	page, err := os.ReadFile(*flagPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, part := range []string{Render(random), RenderSingle(singles)} {
		if text, err = Insert(text, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(*flagPage, []byte(text), 0o600); err != nil {
		t.Fatal(err)
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

// results are the reports of single faults.
type results struct {
	mu  sync.Mutex
	all map[string][]Report // by fault
}

func (r *results) add(fault string, one Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]Report{}
	}
	r.all[fault] = append(r.all[fault], one)
}

func (r *results) write(t *testing.T) {
	t.Helper()
	text := RenderSingle(r.all)
	t.Logf("\n%s", text)
	if *flagReport != "" {
		save(t, "single.md", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
}
