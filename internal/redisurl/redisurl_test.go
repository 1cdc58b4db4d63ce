package redisurl

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// place has a Target in it, and an option of its own.
type place struct {
	Target

	colour string
}

func TestOptionsOfOnesOwn(t *testing.T) {
	t.Parallel()
	colours := backendurl.Options[place]{"colour": {Help: "of the place", Set: func(p *place, v string) error { p.colour = v; return nil }}}
	var p place
	err := Parse("rediss+sentinel://u:pw@a,b:7/m%2F1/4?colour=red&sentinel-user=s&sentinel-password=pw", &p, func(p *place) *Target { return &p.Target }, colours)
	if err != nil {
		t.Fatal(err)
	}
	if p.Kind != Sentinel || p.Network != "tcp" || p.Master != "m/1" || p.DB != 4 || p.TLS == nil || p.Login.User() != "u" || p.Login.Password() != "pw" ||
		p.SentinelUser != "s" || p.SentinelPassword != "pw" || p.colour != "red" {
		t.Errorf("%+v", p)
	}
	const want = "rediss+sentinel://u:xxxxx@a:26379,b:7/m%2F1/4?colour=red&sentinel-password=xxxxx&sentinel-user=s"
	if got := p.Redacted(); got != want {
		t.Errorf("redacted: %s, want %s", got, want)
	}
}
