package s3fence

import (
	"testing"

	"github.com/leaderrun/leaderrun/fence"
)

// What a pointer tells about a write of run 7 whose answer was lost, which was to name the data "ours" instead of what was seen.
func TestFate(t *testing.T) {
	t.Parallel()
	p := func(etag string, token int64, data, previous string) state {
		return state{exists: true, etag: etag, pointer: pointer{Token: token, Data: data, Previous: previous}}
	}
	nothing, first, seen := state{}, p("1", 7, "", ""), p("1", 7, "a", "z")
	for _, c := range []struct {
		name        string
		seen, found state
		key         string
		want        fate
	}{
		{"nobody has written", seen, seen, "ours", mayCome},
		{"it is there", seen, p("2", 7, "ours", "a"), "ours", done},
		{"a later run has raised since", seen, p("3", 8, "ours", "a"), "ours", done},
		{"it was replaced since", seen, p("3", 7, "b", "ours"), "ours", done},
		{"a later run has replaced it", seen, p("4", 8, "b", "ours"), "ours", done},
		{"a later run has raised instead", seen, p("2", 8, "a", "z"), "ours", never},
		{"another has written once instead", seen, p("2", 7, "b", "a"), "ours", never},
		{"a later run has written once", seen, p("3", 8, "b", "a"), "ours", never},
		{"the first data is another's", first, p("2", 7, "b", ""), "ours", never},
		{"raised again, and still no data", first, p("2", 8, "", ""), "ours", never},
		{"two have written", seen, p("3", 7, "c", "b"), "ours", mayHaveCome},
		{"a later run has written twice", seen, p("4", 8, "c", "b"), "ours", mayHaveCome},
		{"two have written the first data", first, p("3", 7, "c", "b"), "ours", mayHaveCome},
		{"somebody has deleted it", seen, nothing, "ours", mayHaveCome},
		{"somebody has deleted what had no data", first, nothing, "ours", mayHaveCome},

		{"to raise: nobody has written", seen, seen, "", mayCome},
		{"to raise: there is still nothing", nothing, nothing, "", mayCome},
		{"to raise: it is raised", p("1", 6, "a", "z"), p("2", 7, "a", "z"), "", done},
		{"to raise: the first pointer", nothing, first, "", done},
		{"to raise again: it is another pointer", seen, p("2", 7, "a", "z"), "", done},
		{"to raise: an earlier run has written", p("1", 6, "a", "z"), p("2", 6, "b", "a"), "", never},
		{"to raise: a later run has", seen, p("2", 8, "a", "z"), "", never},
		{"to raise: somebody has deleted it", seen, nothing, "", never},
	} {
		if got := fateOf(c.seen, c.found, fence.Run{Token: 7}, c.key); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// There is no state of which a pointer is written without a condition.
func TestPointersHaveACondition(t *testing.T) {
	t.Parallel()
	for _, s := range []state{{}, {exists: true, etag: `"x"`}} {
		if c := s.condition(); c.Check() != nil || c.Always || c.IfAbsent == s.exists {
			t.Errorf("%+v: %+v", s, c)
		}
	}
	if c := (state{exists: true}).condition(); c.Check() == nil {
		t.Errorf("without an ETag: %+v", c)
	}
}
