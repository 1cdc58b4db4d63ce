package sqlfence

import (
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
)

// FuzzLiteral: a name stays one literal that means the name, and stays in its comment.
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
			if got, ok := meaning(literal); !ok || got != name {
				t.Errorf("%s: %q is written as %s, which means %q, %v", d, name, literal, got, ok)
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

// meaning reads a literal as the databases do; ok: it is one, and nothing else.
func meaning(literal string) (text string, ok bool) {
	if digits, isHex := strings.CutPrefix(strings.TrimSuffix(strings.TrimPrefix(literal, "CAST("), " AS TEXT)"), "X'"); isHex {
		raw, err := hex.DecodeString(strings.TrimSuffix(digits, "'"))
		return string(raw), err == nil && strings.HasSuffix(digits, "'")
	}
	inside, escapes := strings.CutPrefix(literal, "E")
	if len(inside) < 2 || inside[0] != '\'' || inside[len(inside)-1] != '\'' {
		return "", false
	}
	inside = inside[1 : len(inside)-1]
	var b strings.Builder
	for i := 0; i < len(inside); i++ {
		switch rest := inside[i:]; {
		case strings.HasPrefix(rest, "''"):
			b.WriteByte('\'')
			i++
		case rest[0] == '\'':
			return "", false
		case escapes && strings.HasPrefix(rest, `\\`):
			b.WriteByte('\\')
			i++
		case escapes && strings.HasPrefix(rest, `\U`) && len(rest) >= 10:
			r, err := strconv.ParseUint(rest[2:10], 16, 32)
			if err != nil {
				return "", false
			}
			b.WriteRune(rune(r))
			i += 9
		case escapes && rest[0] == '\\':
			return "", false
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String(), true
}
