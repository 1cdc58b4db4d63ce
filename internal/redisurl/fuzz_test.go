package redisurl

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// FuzzParse: whatever a URL is, it is read or refused for good; a password of it is in no error and in nothing that is shown, and
// what is shown of it reads as the same servers.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		"redis://u:QQsecretQQ@h:1/2", "rediss://h", "redis+unix:///s?db=3", "redis+sentinel://u:QQsecretQQ@a,b:1/main/2?sentinel-password=QQsecretQQ&sentinel-user=x",
		"redis+cluster://:QQsecretQQ@a,[::1]:7", "rediss+cluster://h?ca=/none", "redis://u@h", "redis://:QQsecretQQ%@h", "redis://h/-1", "://", "redis://@:/", "QQsecretQQ",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Contains(raw, "ca=") || strings.Contains(raw, "cert=") || strings.Contains(raw, "key=") || strings.Contains(raw, "%") && strings.Contains(raw, "?") {
			return // it names files
		}
		var target Target
		err := Parse(raw, &target, func(t *Target) *Target { return t }, nil)
		if err != nil {
			if !backends.IsPermanent(err) {
				t.Errorf("%q: %v", raw, err)
			}
			p, _ := errors.AsType[*backends.PermanentError](err)
			if u, broken := url.Parse(raw); broken == nil && u.User != nil {
				if password, _ := u.User.Password(); strings.Contains(password, "QQsecretQQ") && strings.Count(raw, "QQsecretQQ") == 1 && strings.Contains(err.Error()+p.Hint, "QQsecretQQ") {
					t.Errorf("%q: the error shows the password: %v", raw, err)
				}
			}
			return
		}
		if len(target.Addrs) == 0 || target.DB < 0 || (target.Kind == Sentinel) != (target.Master != "") {
			t.Errorf("%q: %+v", raw, target)
		}
		if shown := target.Redacted(); len(target.Login.Password()) > 5 && strings.Count(shown, target.Login.Password()) > strings.Count(raw, target.Login.Password())-1 {
			t.Errorf("%q: %q shows the password", raw, shown)
		}
	})
}
