package httpfence_test

import (
	"errors"
	"os"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/httpfence"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/new/fence"
	open := func() *httpfence.Directory {
		t.Helper()
		d, err := httpfence.OpenDirectory(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, two := open(), open()
	for _, c := range []struct {
		by          *httpfence.Directory
		resource    string
		token, want int64
	}{
		{one, "a", 5, 5},
		{one, "a", 5, 5},
		{one, "a/b", 3, 3},
		{two, "a", 4, 5},
		{two, "a", 6, 6},
		{one, "a", 5, 6}, // which one believes to be the highest
		{one, "a/b", 2, 3},
		{open(), "a", 6, 6},
	} {
		if highest, err := c.by.Raise(t.Context(), c.resource, c.token); highest != c.want || err != nil {
			t.Errorf("%s %d: %d, %v, want %d", c.resource, c.token, highest, err, c.want)
		}
	}
	if highest, err := open().Load(t.Context(), "a"); highest != 6 || err != nil {
		t.Errorf("%d, %v", highest, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 4 {
		t.Errorf("two files for each of two resources, and there are %v", left)
	}
	release, err := one.Own("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Own("a"); !errors.As(err, new(*fence.SetupError)) {
		t.Errorf("two own a resource: %v", err)
	}
	if other, err := two.Own("a/b"); err != nil {
		t.Errorf("another resource: %v", err)
	} else {
		other()
	}
	if highest, err := two.Raise(t.Context(), "a", 7); highest != 7 || err != nil {
		t.Errorf("somebody else raises: %d, %v", highest, err)
	}
	release()
	if release, err = two.Own("a"); err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	release()
	file, sticky, shared := t.TempDir()+"/file", t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(sticky, 0o777|os.ModeSticky), os.Chmod(shared, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{file, sticky, shared, shared + "/made"} { // in which others can lower a token
		_, err = httpfence.OpenDirectory(bad)
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
