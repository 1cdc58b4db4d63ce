package backends

import (
	"context"
	"errors"
	"testing"
)

func TestHolding(t *testing.T) {
	t.Parallel()
	h := NewHolding(3, func(last, now int) bool { return last < now })
	g := Grant{Private: h}
	if HoldingOf[int](g) != h || HoldingOf[string](g) != nil || HoldingOf[int](Grant{}) != nil {
		t.Error("a grant has its own holding, and no other")
	}
	for _, x := range []struct {
		what          string
		was, is, want int
	}{
		{"a renewal", 3, 4, 4},
		{"one beside it that was sent later", 3, 6, 6},
		{"one that was sent earlier and is answered later", 3, 5, 6},
		{"one beside another that is not answered", 4, 0, 6},
		{"one after a failover to a store that was behind", 6, 2, 2},
		{"one whose outcome is not known", 2, 0, 0},
		{"the next one", 2, 3, 3},
	} {
		h.Saw(x.was, x.is)
		if last := h.Last(); last != x.want {
			t.Errorf("%s: %d is known, want %d", x.what, last, x.want)
		}
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	failed := errors.New("cannot be read")
	read := func(_ context.Context, job string) (int, error) {
		if job != "job" {
			return 0, failed
		}
		return 7, nil
	}
	newer := func(int, int) bool { return false }
	var none *Holding[int]
	for h, want := range map[*Holding[int]]int{NewHolding(3, newer): 3, NewHolding(0, newer): 7, none: 7} {
		if s, err := h.Recall(t.Context(), "job", read); s != want || err != nil {
			t.Errorf("recalls %d, %v; want %d", s, err, want)
		}
	}
	if _, err := none.Recall(t.Context(), "another", read); !errors.Is(err, failed) {
		t.Errorf("recalls what cannot be read: %v", err)
	}
}

func TestHedge(t *testing.T) {
	t.Parallel()
	h := NewHolding(1, func(int, int) bool { return false })
	went := 0
	elsewhere := func() { went++ }
	first := h.Hedge(elsewhere)
	second := h.Hedge(elsewhere)
	if went != 1 {
		t.Errorf("a renewal beside a silent one went elsewhere %d times", went)
	}
	second()
	first()
	h.Hedge(elsewhere)()
	if went != 1 {
		t.Error("a renewal that is alone went elsewhere")
	}

	var none *Holding[int]
	none.Saw(0, 1)
	none.Hedge(elsewhere)()
	none.Hedge(elsewhere)()
	if none.Last() != 0 || went != 1 {
		t.Error("a grant of another process knows something")
	}
}
