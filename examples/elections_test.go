package examples

import "strings"

// fitsElections compares docs/design/elections.md and its picture with what the command in it has printed and drawn.
func (w *world) fitsElections(printed string) {
	w.t.Helper()
	page := text(w.t, "../docs/design/elections.md")
	tables := strings.Split(strings.TrimSpace(printed), "\n\n")
	if n := strings.Count(page, "\n| --- |"); n != len(tables) {
		w.t.Errorf("docs/design/elections.md has %d tables, the command printed %d", n, len(tables))
	}
	for _, table := range tables {
		if !strings.Contains(page, "\n\n"+table+"\n\n") {
			w.t.Errorf("docs/design/elections.md lacks this table (go run ./examples/elections -svg docs/design/charts/elections.svg):\n%s", table)
		}
	}
	if w.read("elections.svg") != text(w.t, "../docs/design/charts/elections.svg") {
		w.t.Error("docs/design/charts/elections.svg is not what the command drew")
	}
}
