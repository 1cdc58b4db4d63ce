package cli

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/leaderrun/leaderrun/runner"
)

// A name with such characters in it looks like another one, or changes what stands around it.
func TestJSONShowsWhatNobodySees(t *testing.T) {
	const name = "a\u0085b\u200bc\u202ed\ufeffe\u2028f\u00adg\U000e0041h\x7fi\u00e9\u4e16\U0001f600\\u200b\"\u200d"
	shown := func(t *testing.T, text string) {
		t.Helper()
		for _, r := range strings.TrimRight(text, "\n") {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%U stands in %q", r, text)
			}
		}
		for _, plain := range []string{"\u00e9", "\u4e16", "\U0001f600", `\u202e`, `\udb40\udc41`} {
			if !strings.Contains(text, plain) {
				t.Errorf("%s has no %s", text, plain)
			}
		}
	}
	t.Run("objects", func(t *testing.T) {
		out := Objects([]string{name})
		shown(t, out)
		var back []string
		if err := json.Unmarshal([]byte(out), &back); err != nil || back[0] != name {
			t.Errorf("%q, %v", back, err)
		}
	})
	t.Run("log", func(t *testing.T) {
		line := (&Console{JSON: true}).object(runner.Event{Name: "x", Job: name, Text: name, Fields: []slog.Attr{slog.String("once", name)}})
		shown(t, string(line))
		var back struct{ Job, Msg, Once string }
		if err := json.Unmarshal(line, &back); err != nil || back.Job != name || back.Msg != name || back.Once != name {
			t.Errorf("%q, %v", back, err)
		}
	})
}

// A URL in the place of a file's name is in the system's message too.
func TestPasswordsAreNotTold(t *testing.T) {
	for text, want := range map[string]string{
		"open redis://:Secret@h: no such file":                  "open redis://xxxxx@h: no such file",
		"open /etc/redis:/:Secret@h/x: no such file":            "open /etc/redis:/xxxxx@h/x: no such file",
		"stat postgres://jo:Se/cret@h/db?password=Secret22: no": "stat postgres://xxxxx@h/db?password=xxxxx: no",
		"https://h/v1?token=Secret22&token-file=/x":             "https://h/v1?token=xxxxx&token-file=/x",
		"postgres://jo@h/db: no such host":                      "postgres://jo@h/db: no such host",
		"redis://xxxxx@h: no; file:///a/b: yes":                 "redis://xxxxx@h: no; file:///a/b: yes",
		"mail jo@example.com about http://h/":                   "mail jo@example.com about http://h/",
	} {
		if got := withoutPasswords(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
