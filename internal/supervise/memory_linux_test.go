package supervise

import (
	"reflect"
	"testing"
)

func TestOnlyUnchangedMappingsAreGivenBack(t *testing.T) {
	const smaps = `00400000-00c1d000 r-xp 00000000 08:01 1234                       /usr/bin/leaderrun
Size:               8308 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00c1d000-013a8000 r--p 0081d000 08:01 1234                       /usr/bin/leaderrun
Anonymous:             0 kB
Swap:                  0 kB
013a8000-013aa000 r--p 00fa8000 08:01 1234                       /usr/bin/leaderrun
Anonymous:             8 kB
Swap:                  0 kB
013a9000-013aa000 r--p 00fa9000 08:01 1234                       /usr/bin/leaderrun
Anonymous:             0 kB
Swap:                  4 kB
013aa000-013ec000 rw-p 00faa000 08:01 1234                       /usr/bin/leaderrun
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000001000 r-xp 00000000 08:01 99                 /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
`
	want := []mapping{{0x400000, 0xc1d000}, {0xc1d000, 0x13a8000}}
	if got := unchanged(smaps, "/usr/bin/leaderrun"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x", got)
	}
}
