package backends

import "testing"

func TestHolding(t *testing.T) {
	t.Parallel()
	newer := func(last, now int) bool { return last < now }
	h := NewHolding(3)
	g := Grant{Private: h}
	if HoldingOf[int](g) != h || HoldingOf[string](g) != nil || HoldingOf[int](Grant{}) != nil {
		t.Error("a grant has its own holding, and no other")
	}
	h.Saw(5, newer)
	h.Saw(4, newer) // was sent earlier, and answered later
	if last, known := h.Last(); last != 5 || !known {
		t.Errorf("last: %d, %v", last, known)
	}
	leave, alone := h.Enter()
	again, second := h.Enter()
	again()
	leave()
	if _, third := h.Enter(); !alone || second || !third {
		t.Errorf("alone: %v, %v, %v", alone, second, third)
	}

	var none *Holding[int]
	none.Saw(1, newer)
	leave, alone = none.Enter()
	leave()
	if _, known := none.Last(); known || !alone {
		t.Error("a grant of another process knows something")
	}
}
