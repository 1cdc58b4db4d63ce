package filename

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "",
		"nightly-report":         "nightly-report",
		".hidden":                ".hidden",
		"a/b":                    "a%2Fb",
		"100% ~":                 "100%25%20%7E",
		"Über":                   "%C3%9Cber",
		strings.Repeat("a", 200): strings.Repeat("a", 200),
	} {
		if got := Escape(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestTwoNamesAreNeverOneFile(t *testing.T) {
	name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z%/~.]{0,6}`), rapid.StringMatching(`x{195,205}[/a]{0,3}`))
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if a != b && Escape(a) == Escape(b) {
			t.Errorf("%q and %q are both %q", a, b, Escape(a))
		}
		if got := Escape(a); len(got) > 200 || strings.ContainsAny(got, "/\x00") || got != "" && filepath.Base("x"+got) != "x"+got {
			t.Errorf("%q: %q is no part of a file name", a, got)
		}
	})
}
