package bed

import (
	"testing"
)

func TestLedgers(t *testing.T) {
	t.Parallel()
	old, late := Span{Job: "j", Token: 1, Began: 10}, Span{Job: "j", Token: 2, Began: 20}
	for _, c := range []struct {
		name   string
		writes []Span
		want   Ledger
	}{
		{"one after the other", []Span{old, old, late}, Ledger{Writes: 3}},
		{"the old one writes late", []Span{old, late, old, late}, Ledger{Writes: 4, StaleUnfenced: 1, Refused: 1}},
		{"two at once, without tokens", []Span{{Job: "j", Began: 10}, {Job: "j", Began: 20}, {Job: "j", Began: 10}}, Ledger{Writes: 3, StaleUnfenced: 1, StaleFenced: 1}},
		{"a token that went back", []Span{{Job: "j", Token: 5, Began: 10}, {Job: "j", Token: 4, Began: 20}}, Ledger{Writes: 2, Refused: 1}},
		{"a lower token, of another slot", []Span{{Job: "j", Parts: 2, Token: 5, Began: 10}, {Job: "j", Part: 1, Parts: 2, Token: 4, Began: 20}}, Ledger{}},
		{"a token given twice", []Span{old, {Job: "j", Token: 1, Began: 20}, old}, Ledger{Writes: 3, StaleUnfenced: 1, StaleFenced: 1}},
	} {
		r := &registry{ledgers: map[string]*ledger{}}
		for _, s := range c.writes {
			r.enter(s)
		}
		if got := r.books()["j"]; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
