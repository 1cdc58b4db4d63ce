package model

import (
	"flag"
	"testing"
)

var all = flag.Bool("all", false, "explore all variants, up to their horizons")

// More states than this do not fit into the memory of a small machine, two variants at a time.
const limit = 40_000_000

func TestVariants(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		if !*all {
			v.horizon = v.quick
		}
		if v.horizon == 0 {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := explore(v, limit)
			t.Logf("%s: %d states, %.1fs: %s", v.why, r.States, r.Took.Seconds(), r)
			switch {
			case r.Violated != v.want:
				t.Errorf("want %q to be violated", v.want)
			case v.want == "" && !r.Complete:
				t.Errorf("there are more states than %d", limit)
			}
		})
	}
}

func TestVariantsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, v := range variants() {
		if names[v.name] {
			t.Errorf("two variants are called %s", v.name)
		}
		names[v.name] = true
	}
}
