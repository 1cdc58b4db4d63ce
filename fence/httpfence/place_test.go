package httpfence

import (
	"net/url"
	"testing"
)

func TestSamePlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"http://host", "http://host/a?b", true},
		{"http://host", "HTTP://HOST:80", true},
		{"https://host:443", "https://host", true},
		{"http://[::1]:8080", "http://[::1]:8080/", true},
		{"http://host", "https://host", false},
		{"http://host:443", "https://host", false},
		{"http://host", "http://host:8080", false},
		{"http://host", "http://host.", false},
		{"http://host", "http://other", false},
	} {
		a, errA := url.Parse(c.a)
		b, errB := url.Parse(c.b)
		if errA != nil || errB != nil || samePlace(a, b) != c.want || samePlace(b, a) != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, !c.want)
		}
	}
}
