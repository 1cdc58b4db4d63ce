package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/jobfile"
)

// The hazard: what a user's job writes stands in the journal, or on a terminal, as a line of the daemon's. The journal ends a line at a
// NUL and after 48K, and strips blanks; a terminal goes back at a carriage return.
func TestAUsersLinesPassForNoOthers(t *testing.T) {
	const forged = "leaderrun: forged"
	said := "\x00" + forged + "\n" +
		"\r" + forged + "\r\n" +
		"\x1b[2K\x9b2K\u009b2K\x7f\x08" + forged + "\n" +
		"\n" +
		strings.Repeat(" ", 60_000) + forged + "\n" +
		strings.Repeat("\x00", 60_000) + forged + "\n" +
		"tab\tand \u00e9\u4e16\xe9\ufffd stay\n" +
		"the end"
	command := &launched{launch: &launch{launcher: &launcher{}, job: &jobfile.Job{Name: "j", User: "jo"}}}
	var out bytes.Buffer
	command.copyVisibleLines(&out, strings.NewReader(said))

	text, ended := strings.CutSuffix(out.String(), "\n")
	if !ended {
		t.Error("the last line has no end")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "[j] ") || len(line)+1 > 4096 || strings.ContainsAny(line, "\x00\r\x1b\x7f\x08\u009b") || strings.Contains(line, "\x9b2") {
			t.Errorf("%d bytes: %.80q", len(line), line)
		}
	}
	for _, line := range []string{
		`[j] \x00` + forged, `[j] \x0d` + forged + `\x0d`, `[j] \x1b[2K\x9b2K\x9b2K\x7f\x08` + forged, "[j] ",
		"[j] tab\tand \u00e9\u4e16\xe9\ufffd stay", "[j] the end",
	} {
		if !strings.Contains("\n"+text+"\n", "\n"+line+"\n") {
			t.Errorf("no line is %q", line)
		}
	}
	whole := strings.ReplaceAll(text, "\n[j] ", "")
	if n := strings.Count(whole, `\x00`); n != 60_001 || strings.Count(text, " ") < 60_000 {
		t.Errorf("%d NULs are shown, and %d blanks", n, strings.Count(text, " "))
	}
}
