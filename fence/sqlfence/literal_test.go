package sqlfence

import (
	"strings"
	"testing"
)

// FuzzLiteral: a name has no control characters, and stays in its comment. That it is the same name to the databases, printedResource asks them.
func FuzzLiteral(f *testing.F) {
	for _, name := range []string{
		"invoices", "bob's books", `C:\`, `\'; DROP TABLE account; -- `, "Bücher ‘20%’", "x\nDROP TABLE account;", "\r--", "'", "''", "\\", "{resource}",
		"\u2028", "\x7f", "😀",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if _, err := ParseName(name); err != nil {
			return
		}
		for _, d := range Dialects() {
			literal := d.engine().literal(name)
			if strings.ContainsFunc(literal, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("%s: %q is written as %q", d, name, literal)
			}
			_, usage, _ := strings.Cut(Schema(d, name), d.part("functions"))
			for line := range strings.Lines(usage) {
				if line = strings.TrimSpace(line); line != "" && line != "COMMIT;" && !strings.HasPrefix(line, "--") {
					t.Errorf("%s: %q leaves its comment: %q", d, name, line)
				}
			}
		}
	})
}
