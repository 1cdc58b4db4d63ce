package file

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/filesystem"
	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func examine(t *testing.T, d *driver) suite.Findings {
	t.Helper()
	return suite.Examined(t, d.Examine(t.Context(), 15*time.Second), "")
}

func TestExamine(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	p := d.store.paths("job")
	if err := os.WriteFile(p.record, []byte(`{"job":"job"}`), fileMode); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(d.store.dir)
	if err != nil {
		t.Fatal(err)
	}
	all := examine(t, d)
	all.Expect(t, checkup.Reachable, backends.Fine, d.store.dir)
	all.Expect(t, "users", backends.Fine, "")
	all.Expect(t, "records", backends.Fine, "1, ")
	all.Expect(t, checkup.Clock, backends.Fine, "this host")
	after, err := os.ReadDir(d.store.dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("%v were left behind, %v", after, err)
	}

	if err := os.WriteFile(p.record, []byte(`{"job":`), fileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.store.dir, 0o777); err != nil { //nolint:gosec // that is the case
		t.Fatal(err)
	}
	all = examine(t, d)
	all.Expect(t, "records", backends.Bad, "damaged")
	all.Expect(t, checkup.Rights, backends.Bad, "can be written by others")
	d.store.trusts = everybody
	examine(t, d).Expect(t, checkup.Rights, backends.Warning, "others may start, stop and skip")
}

func TestExamineADirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	if os.Geteuid() == 0 { // who may write everywhere else
		d.store.dir = "/sys"
	} else if err := os.Chmod(d.store.dir, 0o500); err != nil { //nolint:gosec // that is the case
		t.Fatal(err)
	}
	examine(t, d).Expect(t, checkup.Reachable, backends.Bad, "permission denied")
}

func TestExamineFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root gives files away")
	}
	d := openDir(t, t.TempDir())
	path := d.store.paths("job").lock
	if err := os.WriteFile(path, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	examine(t, d).Expect(t, "users", backends.Warning, ownership.UserName(nobody))
}

func TestExamineADiskThatHangs(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := d.Examine(ctx, time.Second)
	if len(f) != 1 || f[0].Grade != backends.Bad || f[0].What != checkup.Reachable {
		t.Errorf("%+v", f)
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	disk := filesystem.Volume{Known: true, Free: 1 << 30, Files: 1000, Left: 900}
	with := func(change func(*filesystem.Volume)) filesystem.Volume {
		v := disk
		change(&v)
		return v
	}
	for _, c := range []struct {
		name        string
		v           filesystem.Volume
		kind, space backends.Grade
	}{
		{"a disk", disk, backends.Fine, backends.Fine},
		{"one without a limit of files", with(func(v *filesystem.Volume) { v.Files, v.Left = 0, 0 }), backends.Fine, backends.Fine},
		{"tmpfs: ticks would run again after a reboot", with(func(v *filesystem.Volume) { v.Ends = "at the end" }), backends.Warning, backends.Fine},
		{"full", with(func(v *filesystem.Volume) { v.Free = 0 }), backends.Fine, backends.Bad},
		{"nearly full", with(func(v *filesystem.Volume) { v.Free = 5 << 20 }), backends.Fine, backends.Warning},
		{"no inode", with(func(v *filesystem.Volume) { v.Left = 0 }), backends.Fine, backends.Bad},
		{"few inodes", with(func(v *filesystem.Volume) { v.Left = 9 }), backends.Fine, backends.Warning},
		{"another system", filesystem.Volume{}, backends.Fine, ""},
	} {
		var f checkup.Findings
		judge(c.v, &f, "/store")
		got := map[string]backends.Grade{}
		for _, x := range f {
			got[x.What] = x.Grade
		}
		if got["file system"] != c.kind || got["space"] != c.space {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
