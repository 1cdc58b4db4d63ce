package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Another program takes its turn before this one on file and Redis, with records of its own, and is what this one is
// compared with.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "before")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	b := &bed{dir: dir, ways: []way{
		{name: baseline},
		{name: "leaderrun, file", own: true, peer: baseline},
		{name: "leaderrun, Redis", own: true, url: "redis://host/?longest-ttl=15s"},
		{name: "etcdctl lock"},
		{name: "leaderrun, etcd", own: true, peer: "etcdctl lock"},
	}}
	if err := b.putBeside(other); err != nil {
		t.Fatal(err)
	}
	type turn struct {
		Name, Peer string
		Run        []string
	}
	var got []turn
	for _, w := range b.ways {
		got = append(got, turn{w.name, w.peer, w.run})
	}
	want := []turn{
		{Name: baseline},
		{"beside: leaderrun, file", "", []string{dir + "/beside-file", "run", "--backend", "file://" + dir + "/records-beside", "bench"}},
		{Name: "leaderrun, file", Peer: "beside: leaderrun, file"},
		{"beside: leaderrun, Redis", "", []string{dir + "/beside-redis", "run", "--backend", "redis://host/?longest-ttl=15s&prefix=beside", "bench"}},
		{Name: "leaderrun, Redis", Peer: "beside: leaderrun, Redis"},
		{Name: "etcdctl lock"},
		{Name: "leaderrun, etcd", Peer: "etcdctl lock"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := (&bed{dir: dir, ways: []way{{name: baseline}}}).putBeside(other); err == nil {
		t.Error("nothing to compare with is no error")
	}
}
