package crontab

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		want   Line
	}{
		{User, "", Line{}},
		{User, " \t\n", Line{Kind: Blank}},
		{User, "\r\n", Line{Kind: Blank}},
		{User, "  # x\n", Line{Kind: Comment}},
		{User, "A = 'b '\n", Line{Kind: Setting, Name: "A", Value: "b "}},
		{User, "A='b\n", Line{Kind: Broken, Name: "A", Why: "the quote is not closed"}},
		{User, " 0  2 *\t* *  x y \n", Line{Kind: Job, Fields: "0 2 * * *", Command: "x y ", At: 13}},
		{User, "0 2 * * * x", Line{Kind: Job, Fields: "0 2 * * *", Command: "x", At: 10}},
		{User, "0 2 * * * x\r\n", Line{Kind: Job, Fields: "0 2 * * *", Command: "x", At: 10}},
		{User, "0 2 * * * x\r\r\n", Line{Kind: Broken, Why: "a carriage return at the end of the command"}},
		{User, "-@daily x x\n", Line{Kind: Job, Quiet: true, Fields: "@daily", Command: "x x", At: 8}},
		{User, "@every 90s x\n", Line{Kind: Job, Fields: "@every 90s", Command: "x", At: 11}},
		{User, "0 2 * * *\n", Line{Kind: Broken, Why: "neither a variable nor a schedule with a command"}},
		{User, "export A=b\n", Line{Kind: Broken, Why: "neither a variable nor a schedule with a command"}},
		{User, "* * * * * * x\n", Line{Kind: Job, Fields: "* * * * *", Command: "* x", At: 10}},
		{System, "0 2 * * *  www-data\tx y\n", Line{Kind: Job, Fields: "0 2 * * *", User: "www-data", Command: "x y", At: 20}},
		{System, "0 2 * * * x\n", Line{Kind: Broken, Why: "neither a variable nor a schedule with a user and a command"}},
		{Supercronic, "*/5 * * * * * * x 1\n", Line{Kind: Job, Seconds: "*/5", Fields: "* * * * *", Year: "*", Command: "x 1", At: 16}},
		{Supercronic, "0 2 * * MON-FRI 2030 x\n", Line{Kind: Job, Fields: "0 2 * * MON-FRI", Year: "2030", Command: "x", At: 21}},
		{Supercronic, "0 2 * * * cmd 2020 x\n", Line{Kind: Job, Fields: "0 2 * * *", Command: "cmd 2020 x", At: 10}},
		{Supercronic, "@hourly date +%F\n", Line{Kind: Job, Fields: "@hourly", Command: "date +%F", At: 8}},
	} {
		lines := Parse([]byte(c.text), c.format)
		if c.text == "" {
			if len(lines) > 0 {
				t.Errorf("lines of nothing: %+v", lines)
			}
			continue
		}
		c.want.Number, c.want.Text = 1, c.text
		if diff := cmp.Diff(c.want, lines[0], cmpopts.IgnoreFields(Line{}, "Hint")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

// FuzzParse: no byte is lost, a command is where it is said to be, and what is said to be no line of a crontab does not load.
func FuzzParse(f *testing.F) {
	for _, text := range odd {
		f.Add([]byte(text))
	}
	f.Add([]byte("FOO=bar\r\n\r\n@daily x\\%y%z\n-5~7 2 * * * sh -c 'a && b'"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []Format{User, System, Supercronic} {
			all := ""
			for _, l := range Parse(text, format) {
				all += l.Text
				if l.Kind == Job && !strings.HasPrefix(l.Text[l.At:], l.Command+l.End()) {
					t.Errorf("%q: no command %q at %d", l.Text, l.Command, l.At)
				}
				if l.Kind == Job && l.Name != "" || l.Kind == Broken && l.Why == "" {
					t.Errorf("%q: %+v", l.Text, l)
				}
				tokens, ok := Tokens(l.Command)
				last := 0
				for _, token := range tokens {
					if token.Start < last || token.End <= token.Start || token.End > len(l.Command) {
						t.Errorf("%q: %+v", l.Command, tokens)
					}
					last = token.End
				}
				_ = ok
				if name := Name(l.Command); name == "" || len(name) > 255 {
					t.Errorf("%q is called %q", l.Command, name)
				}
			}
			if all != string(text) {
				t.Errorf("%q became %q", text, all)
			}
		}
		if entries, err := Load(text, User, Debian); err == nil {
			n := 0
			for _, l := range Parse(text, User) {
				if l.Kind == Job {
					n++
				}
			}
			if n > len(entries) {
				t.Errorf("%q: %d jobs, cron sees %d", text, n, len(entries))
			}
		}
	})
}

func TestIgnored(t *testing.T) {
	for name, want := range map[string]bool{"php": false, "e2scrub_all": false, "0hourly": false, ".placeholder": true, "a.b": true, "x~": true, "x.dpkg-old": true, "": true, "README.md": true} {
		if _, got := Ignored(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string // operators in brackets, words that are replaced in braces
	}{
		{`a 'b c' "d e"f\ g`, `a|b c|d ef g`},
		{`a && b||c;d|e &`, `a|[&&]|b|[||]|c|[;]|d|[|]|e|[&]`},
		{`a >/dev/null 2>&1 2>>x 3<y`, `a|[>]|/dev/null|[2>&1]|[2>>]|x|[3<]|y`},
		{`a &>x`, `a|[&>]|x`},
		{`(a)`, `[(]|a|[)]`},
		{`a $(b "c)" 'd)') x`, "a|{$(b \"c)\" 'd)')}|x"},
		{"a `b c` ${d:-e f} $g", "a|{`b c`}|{${d:-e f}}|{$g}"},
		{`a "$b c" '$d' $`, `a|{$b c}|$d|$`},
		{`*.x ~/y a~b [z] {1,2} a=~/c`, `{*.x}|{~/y}|a~b|{[z]}|{{1,2}}|{a=~/c}`},
		{`a # b 'c`, `a|[# b 'c]`},
		{`a#b`, `a#b`},
		{`a 5 5>x 10&`, `a|5|[5>]|x|10|[&]`},
		{"a\nb", "a|[]|b"},
		{`a ""`, `a|`},
		{``, ``},
		{`a \`, `a|\`},
	} {
		tokens, ok := Tokens(c.script)
		var got []string
		for _, token := range tokens {
			switch {
			case token.Operator:
				got = append(got, "["+token.Text+"]")
			case token.Literal:
				got = append(got, token.Text)
			default:
				got = append(got, "{"+token.Text+"}")
			}
		}
		if strings.Join(got, "|") != c.want || !ok {
			t.Errorf("%s: got %s, %t, want %s", c.script, strings.Join(got, "|"), ok, c.want)
		}
	}
	for _, script := range []string{`a 'b`, `a "b`, "a `b", `a $(b`, `a ${b`, `a "$(b"`} {
		if _, ok := Tokens(script); ok {
			t.Errorf("%s: it ends", script)
		}
	}
}

// TestTokensNested: hazard: each substitution in another takes some of the stack, and Go ends the process where that is used up.
func TestTokensNested(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`"$(`, n) + strings.Repeat(`)"`, n) }
	for n, want := range map[int]bool{1: true, maxNested: true, maxNested + 1: false, 5_000_000: false} {
		if _, ok := Tokens(nested(n)); ok != want {
			t.Errorf("%d substitutions in each other: %t", n, ok)
		}
	}
	if _, ok := Tokens(strings.Repeat(`"$(x)" `, 2*maxNested)); !ok {
		t.Error("substitutions side by side count as nested")
	}
}
