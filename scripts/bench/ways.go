package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// baseline is what all are compared with.
const baseline = "flock"

// way is one way to run a command under a lock.
type way struct {
	name  string
	run   []string                  // comes before the command; nil: nothing does
	queue func(job string) []string // comes before a command that waits for the lock; nil: it cannot
	own   bool                      // it is leaderrun
	peer  string                    // the way that uses the same store; "": none
	url   string                    // of the server, for leaderrun; "": none
}

// bed is a directory with programs, and servers, to measure with.
type bed struct {
	dir  string
	ways []way
}

// makeBed builds leaderrun, starts the servers that there are, and lists what is compared: flock and those whose name
// fits.
func makeBed(t testing.TB, only string) (b *bed, err error) {
	t.Helper()
	b = &bed{dir: t.TempDir()}
	fits, err := regexp.Compile(only)
	if err != nil {
		return b, err
	}
	leaderrun, err := buildLeaderrun(b.dir)
	if err != nil {
		return b, err
	}
	b.ways = []way{
		{name: "bare spawn"},
		{
			name: baseline, run: []string{"flock", "-n", filepath.Join(b.dir, "lock")},
			queue: func(job string) []string { return []string{"flock", filepath.Join(b.dir, job+".lock")} },
		},
	}
	own, err := leaderrunWay("file", leaderrun, "file://"+filepath.Join(b.dir, "records"))
	if err != nil {
		return b, err
	}
	own.peer = baseline
	b.ways = append(b.ways, own)
	for _, s := range stores {
		if err := b.add(t, s, leaderrun, fits); err != nil {
			return b, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.ways = slices.DeleteFunc(b.ways, func(w way) bool { return w.name != baseline && !fits.MatchString(w.name) })
	return b, nil
}

// add starts a store's server where it is installed and wanted, and lists the ways that use it.
func (b *bed) add(t testing.TB, s store, leaderrun string, fits *regexp.Regexp) error {
	t.Helper()
	if !fits.MatchString("leaderrun, "+s.name) && !fits.MatchString(s.peerName) {
		return nil
	}
	if err := s.missing(); err != nil {
		fmt.Printf("%s is not measured: %v\n", s.name, err)
		return nil
	}
	url, addr := s.start(t)
	own, err := leaderrunWay(s.name, leaderrun, url)
	if err != nil {
		return err
	}
	own.url = url
	if s.peer != nil && fits.MatchString(s.peerName) {
		peer, err := s.peer(addr)
		if err != nil {
			return err
		}
		peer.name, own.peer = s.peerName, s.peerName
		b.ways = append(b.ways, peer)
	}
	b.ways = append(b.ways, own)
	// The first run makes the record, and waits out the quarantine of a Redis or a PostgreSQL that has just started.
	for range 1 + s.early {
		if _, err := spend(append(slices.Clone(own.run), "true")); err != nil {
			return err
		}
	}
	return nil
}

// putBeside adds another program of leaderrun, on file and Redis as far as this one is measured there. It is the peer of this
// one, and has records of its own: the two may be of different versions.
func (b *bed) putBeside(path string) error {
	program := filepath.Join(b.dir, "beside")
	if err := install(path, program); err != nil {
		return err
	}
	var all []way
	for _, own := range b.ways {
		store, backend := strings.TrimPrefix(own.name, "leaderrun, "), ""
		switch {
		case store == "file" && own.own:
			backend = "file://" + filepath.Join(b.dir, "records-beside")
		case store == "Redis" && own.own:
			backend = own.url + "&prefix=beside"
		}
		if backend != "" {
			other, err := leaderrunWay(store, program, backend)
			if err != nil {
				return err
			}
			other.name, other.queue, other.own = "beside: "+own.name, nil, false
			own.peer = other.name
			if _, err := spend(append(slices.Clone(other.run), "true")); err != nil { // as add does for the first run
				return err
			}
			all = append(all, other)
		}
		all = append(all, own)
	}
	if len(all) == len(b.ways) {
		return errors.New("-beside: neither file nor Redis is measured")
	}
	b.ways = all
	return nil
}

// leaderrunWay is leaderrun on a store. The program is a copy of its own, so that no other way has a share in the
// memory of its file.
func leaderrunWay(store, program, backend string) (way, error) {
	binary := program + "-" + strings.ToLower(store)
	run := []string{binary, "run", "--backend", backend}
	return way{
		name:  "leaderrun, " + store,
		own:   true,
		run:   append(slices.Clone(run), "bench"),
		queue: func(job string) []string { return append(slices.Clone(run), "--wait", "forever", job) },
	}, install(program, binary)
}

// buildLeaderrun builds leaderrun as `make build` does, and returns its path.
func buildLeaderrun(dir string) (string, error) {
	leaderrun := filepath.Join(dir, "leaderrun")
	built := leaderrun + ".built"
	build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-o", built, "github.com/leaderrun/leaderrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return leaderrun, install(built, leaderrun)
}

// install copies the program, as whoever installs it does. The linker writes a file through a mapping, in single
// pages of the page cache, and a run of that takes 6 to 9% longer than one of a file that was written or read in.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o700) //nolint:gosec // it is to be executed
}
