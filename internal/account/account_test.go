package account

import (
	"errors"
	"slices"
	"testing"
)

const users = `root:x:0:0:root:/root:/bin/bash
jo:x:1000:1001:Jo,,,:/home/jo:/bin/bash
jo:x:0:0:a second line counts for nothing:/root:/bin/bash
homeless:x:1002:1002::nowhere:
short:x:1003:1003
nameless:x::1004::/:
letters:x:12a:1005::/:
groupless:x:1006:::/:
nobody-at-all:x:4294967295:1007::/:
huge:x:4294967296:1008::/:
negative:x:-1:1009::/:
+nis::::::
`

const groups = `root:x:0:
jo:x:1001:
adm:x:4:jo,other
wheel:x:10:other,jo
notme:x:11:jojo,other
twice:x:4:jo
broken:x:none:jo
half:x:12
`

func TestLookup(t *testing.T) {
	a, err := lookup(users, groups, "jo")
	if err != nil || a.UID != 1000 || a.GID != 1001 || a.Home != "/home/jo" || !slices.Equal(a.Groups, []uint32{4, 10, 1001}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := lookup(users, groups, "homeless"); err != nil || a.Home != "/" || !slices.Equal(a.Groups, []uint32{1002}) {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestNobodyBecomesRoot: hazard: what a line lacks is 0, and that is root.
func TestNobodyBecomesRoot(t *testing.T) {
	for _, name := range []string{"short", "nameless", "letters", "groupless", "nobody-at-all", "huge", "negative", "+nis"} {
		if a, err := lookup(users, groups, name); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, name := range []string{"", "stranger", "root:x", "j", "JO", "0", "1000", "jo\n", "jo "} {
		if a, err := lookup(users, groups, name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %+v, %v", name, a, err)
		}
	}
	t.Setenv("USER", "stranger") // what package os/user believes of a process without a line
	t.Setenv("HOME", "/root")
	if a, err := Lookup("stranger"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%+v, %v", a, err)
	}
}
