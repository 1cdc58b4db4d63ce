package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/test/waits"
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
		"\u202e" + forged + "\u2066\u2028\n" +
		"tab\tand \u00e9\u4e16\xe9\ufffd stay\n" +
		"the end"
	command := &launched{Attempt: &Attempt{Launcher: &Launcher{}, job: &jobfile.Job{Name: "j", User: "jo"}}}
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
		`[j] \u202e` + forged + `\u2066\u2028`, "[j] tab\tand \u00e9\u4e16\xe9\ufffd stay", "[j] the end",
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

// Hazard: a process outside the tree was handed the job's stdout, as over a socket, and keeps it: each run would cost the daemon two
// descriptors for good. What it has written by the end of the run is not lost.
func TestAPipeThatAnotherProcessKeepsIsClosed(t *testing.T) {
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = out, out
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	for _, user := range []string{"", "jo"} {
		job := &jobfile.Job{Name: "j", User: user}
		job.Prefix, job.Stdin = "[p] ", strings.Repeat("unread", 100_000)
		a := &Attempt{Launcher: &Launcher{LastOutput: time.Millisecond}, job: job, socket: NewSocket(func(string, string) {})}
		own, err := (&launched{Attempt: a}).files()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := own[1].WriteString("said"); err != nil {
			t.Fatal(err)
		}
		a.Close()
		a.copies.Wait()
		if n := len(a.pipes.all); n != 3 {
			t.Errorf("%d pipes are known", n)
		}
		for _, f := range a.pipes.all {
			for end := time.Now().Add(waits.Patience); f.SetDeadline(time.Time{}) == nil; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("user %q: a pipe stays open", user)
				}
			}
		}
		line := make([]byte, len("[p] said\n"))
		if _, err := io.ReadFull(said, line); err != nil || string(line) != "[p] said\n" {
			t.Errorf("user %q: %q, %v", user, line, err)
		}
		for _, f := range own {
			_ = f.Close()
		}
	}
}

// Who writes for ever is not read for ever.
func TestWhoWritesForEverIsNotRead(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer reader.Close()
	_ = reader.SetDeadline(time.Now())
	d := &drained{File: reader}
	for read := 0; read <= 2*fullPipe; {
		if _, err := writer.Write(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		n, err := d.Read(make([]byte, 4096))
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || n == 0 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		read += n
	}
	t.Error("it is read for ever")
}
