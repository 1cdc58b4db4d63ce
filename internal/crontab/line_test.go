package crontab

import "testing"

// What cron of Debian (3.0pl1-162) makes of these lines. It was asked: each stood in a file of /etc/cron.d of its own,
// above a line that runs every minute, with SHELL set to a program that writes down its arguments, standard input
// and environment. A line that cron does not take for a variable makes it ignore the whole file.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		line, name, value string
		why               string // where cron ignores the file, and what we say of it
	}{
		{line: `FOO=bar`, name: "FOO", value: "bar"},
		{line: "FOO = bar baz  \t", name: "FOO", value: "bar baz"},             // blanks around = and at the end do not count
		{line: `FOO="  x  "`, name: "FOO", value: "  x  "},                     // quotes keep them
		{line: `FOO='a"b'`, name: "FOO", value: `a"b`},                         // the other quote is a character
		{line: `FOO=a"b"`, name: "FOO", value: `a"b"`},                         // quotes that do not begin the value stay
		{line: `FOO="a"  `, name: "FOO", value: "a"},                           // blanks after the quote do not count
		{line: `FOO=""`, name: "FOO", value: ""},                               //
		{line: `FOO=bar # com`, name: "FOO", value: "bar # com"},               // there are no comments behind a value
		{line: `"FOO"=bar`, name: "FOO", value: "bar"},                         // the name may have quotes, too
		{line: `'F O'=bar`, name: "F O", value: "bar"},                         // (refused later: no name of a variable)
		{line: `FOO=a=b`, name: "FOO", value: "a=b"},                           // the first = counts
		{line: `FOO=$HOME:x`, name: "FOO", value: "$HOME:x"},                   // nothing is expanded
		{line: `FOO=a\"b`, name: "FOO", value: `a\"b`},                         // \ is a character
		{line: `FOO=a%b`, name: "FOO", value: "a%b"},                           // and so is %
		{line: `1X=2`, name: "1X", value: "2"},                                 // (refused later)
		{line: `=2`, name: "", value: "2"},                                     // (refused later)
		{line: "FOO=b\vc", name: "FOO", value: "b\vc"},                         //
		{line: `FOO=`, name: "FOO", value: ""},                                 // cron ignores the file; what is meant is plain
		{line: `FOO="a" b`, name: "FOO", why: "text after the closing quote"},  //
		{line: `FOO='a'b'`, name: "FOO", why: "text after the closing quote"},  //
		{line: `FOO="a\"b"`, name: "FOO", why: "text after the closing quote"}, // \" ends the value
		{line: `FOO="abc`, name: "FOO", why: "the quote is not closed"},
	} {
		v, ok := ParseVariable(c.line)
		if !ok || v.Name != c.name || v.Value != c.value || (v.Why == "") != (c.why == "") {
			t.Errorf("%s: got %+v, %t", c.line, v, ok)
		}
	}
	for _, line := range []string{
		"export FOO=bar", "FOO bar", "FOO", "* * * * * a=b", "0 2 * * * FOO=bar cmd", "@daily cmd --x=y", `"FOO=bar`, `"A=B"=c`, `"FOO" x=y`,
	} {
		if v, ok := ParseVariable(line); ok {
			t.Errorf("%s is taken for the variable %+v", line, v)
		}
	}
}

// What the same program makes of % and \ in a command.
func TestPercent(t *testing.T) {
	for _, c := range []struct{ command, line, stdin string }{
		{`echo a%b%c`, `echo a`, "b\nc\n"},  // the last line is ended
		{`echo \%d`, `echo %d`, ""},         // a plain %
		{`echo \\%d`, `echo \`, "d\n"},      // \\ is one \, which then does not quote the %
		{`echo a\b`, `echo a\b`, ""},        // another \ is left alone
		{`echo a\\b`, `echo a\b`, ""},       // but of two one goes
		{`cmd%`, `cmd`, ""},                 // nothing to read
		{`cmd%%`, `cmd`, "\n"},              // an empty line to read
		{`cmd%a\%b`, `cmd`, "a%b\n"},        //
		{`cmd%a\\%b`, `cmd`, "a\\%b\n"},     // \\ is nothing special in what is read
		{`cmd%a\`, `cmd`, "a\\\n"},          //
		{`cmd%a%`, `cmd`, "a\n"},            // no empty line after the last
		{`cmd\`, `cmd\`, ""},                //
		{"cmd  \t ", "cmd  \t ", ""},        // blanks at the end stay
		{`cmd # c`, `cmd # c`, ""},          // a comment is the shell's affair
		{`cmd\%%\%`, `cmd%`, "%\n"},         //
		{`%in`, ``, "in\n"},                 // (refused later: no command)
		{`date +\%F%x`, `date +%F`, "x\n"},  //
		{`printf '\\n'`, `printf '\n'`, ""}, //
		{``, ``, ""},
	} {
		line, stdin := SplitPercent(c.command)
		if line != c.line || stdin != c.stdin {
			t.Errorf("%s: got %q and %q, want %q and %q", c.command, line, stdin, c.line, c.stdin)
		}
	}
}
