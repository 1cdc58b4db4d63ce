package backendurl

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// settings is what the URLs of this test configure.
type settings struct {
	prefix, token string
}

var options = Options[settings]{
	"prefix": Prefix(func(s *settings) *string { return &s.prefix }),
	"token":  {Help: "a secret", Secret: true, Set: func(s *settings, v string) error { s.token = v; return nil }},
}

var form = Form{
	Of: "an x", Shapes: "x://HOST",
	Schemes:       map[string]Scheme{"x": {Port: "7"}, "xs": {Port: "7", TLS: true}, "x+unix": {Socket: true}},
	PasswordAlone: true,
}

func read(raw string) (*URL, *settings, error) {
	s := &settings{}
	u, err := Read(raw, form, options, s)
	return u, s, err
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"X://h":          "x://h:7",
		"x://a,b/p%2Cq/": "x://a:7,b:7/p%2Cq/",
		"x://u:hunter2@a,b:1,[::1]/p%2Fq?prefix=z": "x://u:xxxxx@a:7,b:1,[::1]:7/p%2Fq?prefix=z",
		"x://u%3Ahunter2:p@h":                      "x://u:xxxxx@h:7",
		"x://h?token=hunter2&prefix=p":             "x://h:7?prefix=p&token=xxxxx",
		"xs://h?server-name=n":                     "xs://h:7?server-name=n",
		"x+unix://u:hunter2@/run/a@b?prefix=p":     "x+unix://u:xxxxx@/run/a@b?prefix=p",
	} {
		u, _, err := read(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := u.Redacted(); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	without := form
	without.UserAlone = true
	alone, err := Read("x://u%40v@h/p", without, options, new(settings))
	if err != nil || alone.Login.User() != "u@v" || alone.Login.Password() != "" || alone.Redacted() != "x://u@v@h:7/p" {
		t.Errorf("%+v, %v", alone, err)
	}
	if alone, err = Read("x://u%3Ahunter2@h", without, options, new(settings)); err != nil || alone.Redacted() != "x://u:xxxxx@h:7" {
		t.Errorf("%+v, %v", alone, err)
	}
	u, s, err := read("x://u:hunter2@h?token=sesame")
	if err != nil || u.Login.Password() != "hunter2" || s.token != "sesame" {
		t.Errorf("%+v, %+v, %v", u, s, err)
	}
}

func TestErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	for raw, hint := range map[string]string{
		"x://u:hunter2@h?none=1":            "token (a secret)",
		"x://u:hunter2@h?ca=hunter2":        "prefix (",
		"xs://u:hunter2@h?none=1":           "server-name (",
		"x://u:a/hunter2@h":                 "%2F",
		"x://u:7?hunter2@h":                 "%3F",
		"x://u:a?hunter2@h":                 "%3F",
		"x://u:hunter2@a/p,b/p":             "once, after all hosts",
		"x://h?prefix=":                     "leave the option out",
		"x://u:hunter2%zz@h":                "%25",
		"x://u:hunter2@h:x":                 "x://HOST",
		"x://u@h":                           "x://HOST",
		"x://h?token=hunter2&token=hunter2": "keep one",
		"x+unix://u:hunter2@h":              "x://HOST",
		"x://[::1":                          "x://HOST",
		"x://[::1:7":                        "x://HOST", // else it is the host ::1:7
		"x://h]":                            "x://HOST",
		"x://[[::1]]":                       "x://HOST",
		"x://[]":                            "x://HOST",
	} {
		_, _, err := read(raw)
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, hint) {
			t.Errorf("%s: %v (%+v), want a hint with %q", raw, err, p, hint)
			continue
		}
		if strings.Contains(err.Error()+p.Hint, "hunter2") {
			t.Errorf("%s: shows the password: %v (%s)", raw, err, p.Hint)
		}
	}
}

// TestHide: what a server says shows no password, and no word with a hole that would tell one.
func TestHide(t *testing.T) {
	t.Parallel()
	const denied = "NOPERM The user executing the script can't run this command; no permissions: user_script:43"
	for _, c := range []struct{ secret, text, want string }{
		{"p", denied, denied},
		{"", denied, denied},
		{"perm", denied, denied},
		{"script", denied, "NOPERM The user executing the xxxxx can't run this command; no permissions: user_script:43"},
		{"p", "ERR invalid 'p' or p, p", "ERR invalid 'xxxxx' or xxxxx, xxxxx"},
		{"p!", "unknown p!, q!p!", "unknown xxxxx, q!xxxxx"},
		{"hunter2", `user\nhunter2hunter2x`, `user\nxxxxxxxxxxx`},
		{"correcthorsebattery", "xcorrecthorsebatteryx", "xxxxxxx"},
	} {
		if got := Hide(c.text, c.secret); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.secret, c.text, got, c.want)
		}
	}
	l := NewLogin("u", "former-one")
	l.set("u", "later-one")
	if got := l.Hide("former-one later-one"); got != "xxxxx xxxxx" {
		t.Error(got)
	}
}

// TestRekey: only the user and the password of a URL may change.
func TestRekey(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"x://u:new@h/p?prefix=a": "", "x://v:new@h/p?prefix=a": "",
		"x://u:new@h/p": "another store", "x://u:new@h/q?prefix=a": "another store", "x://u:new@i/p?prefix=a": "another store",
		"xs://u:new@h/p?prefix=a": "another store", "x://u:new@h/p?prefix=b": "another store", "x://u:new@h/p?prefix=a&token=new": "another store",
		"x://u:ne": "HOST", "": "not the URL",
	} {
		u, _, err := read("x://u:hunter2@h/p?prefix=a")
		if err != nil {
			t.Fatal(err)
		}
		err = u.Rekey(raw)
		password := "new"
		if want != "" {
			password = "hunter2"
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || u.Login.Password() != password {
			t.Errorf("%s: %v, the password is %s", raw, err, u.Login.Password())
		}
	}
}

// TestUnusableFiles: what is wrong with a file is said of the option that was written, and the remedy is about files.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]TLSFiles{
		"option ca of the URL: open /nowhere":                 {CA: "/nowhere"},
		"option ca of the URL: options.go holds no":           {CA: "options.go"},
		"options cert and key of the URL: open /nowhere":      {Cert: "/nowhere", Key: "/nowhere"},
		"only one of the options cert and key":                {Cert: "/nowhere"},
		"option sslrootcert of the URL: open /nowhere":        {CA: "/nowhere", written: map[string]string{"ca": "sslrootcert"}},
		"options sslcert and key of the URL: open /nowhere":   {Cert: "/nowhere", Key: "/nowhere", written: map[string]string{"cert": "sslcert"}},
		"the URL has only one of the options cert and sslkey": {Key: "/nowhere", written: map[string]string{"key": "sslkey"}},
	} {
		_, err := f.Config()
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || !strings.Contains(p.Error(), want) || !strings.Contains(p.Hint, "PEM") && !strings.Contains(p.Hint, "=FILE&") {
			t.Errorf("%+v: %v (%+v), want %q", f, err, p, want)
		}
	}
}
