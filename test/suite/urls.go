package suite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// Password is the one in the URLs that BadURLs and Redacted get.
const Password = "hunter2"

// shower is a driver that shows its URL.
type shower interface {
	backends.Backend
	fmt.Stringer
	Redacted() string
}

// BadURLs checks that each URL is a configuration error that has a remedy and does not show the Password.
func BadURLs[D backends.Backend](t *testing.T, open func(url string) (D, error), urls []string) {
	t.Helper()
	for _, url := range urls {
		_, err := open(url)
		p, ok := errors.AsType[*backends.PermanentError](err)
		if !ok || p.Kind != backends.Configuration {
			t.Errorf("%s: %v, want a configuration error", url, err)
			continue
		}
		if p.Hint == "" {
			t.Errorf("%s: %v: there is no remedy", url, err)
		}
		if strings.Contains(err.Error()+p.Hint, Password) {
			t.Errorf("%s: the error shows the password: %v (%s)", url, err, p.Hint)
		}
	}
}

// Redacted checks how the drivers of URLs are shown, and that no way to print one shows the Password.
func Redacted[D shower](t *testing.T, open func(url string) (D, error), shown map[string]string) {
	t.Helper()
	for url, want := range shown {
		d := Open(t, open, url)
		for _, got := range []string{d.Redacted(), d.String(), fmt.Sprint(d), fmt.Sprintf("%+v", d)} {
			if got != want {
				t.Errorf("%s: %s, want %s", url, got, want)
			}
		}
		if text := fmt.Sprintf("%#v", d); strings.Contains(text, Password) {
			t.Errorf("%s: %%#v shows the password: %s", url, text)
		}
	}
}

// FuzzURL fuzzes open: whatever the URL, nothing shows its password, nothing panics, and what is shown of one that is taken means the
// same. Shapes is what errors say that a URL looks like.
func FuzzURL[D shower](f *testing.F, open func(url string) (D, error), urls []string, shapes string) {
	f.Helper()
	for _, url := range urls {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		d, err := open(url)
		var text string
		if err == nil {
			text = d.String()
			if again, err := open(d.Redacted()); err != nil || again.Redacted() != d.Redacted() {
				t.Errorf("%s is shown as %s, which is read as another: %v", url, d.Redacted(), err)
			}
		} else {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok {
				t.Fatalf("%v is not permanent", err)
			}
			text = err.Error() + p.Hint
		}
		_, rest, _ := strings.Cut(url, "://")
		if i := strings.LastIndex(rest, "@"); i >= 0 {
			user, password, ok := strings.Cut(rest[:i], ":")
			if ok && len(password) > 8 && !strings.Contains(user+rest[i:]+shapes, password) && strings.Contains(text, password) {
				t.Errorf("%s: shows %q", text, password)
			}
		}
	})
}
