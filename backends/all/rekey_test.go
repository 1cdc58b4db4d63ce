package all

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
)

// TestRotatedPassword: a run whose password is changed on the server renews its lease with the one that the file has by then, in the
// very request that is refused first.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url, another string, rotate func(password string)){
		"redis": func(t *testing.T) (string, string, func(string)) {
			t.Helper()
			s := servers.Redis(t, servers.RedisOptions{})
			s.Do(t, "acl", "setuser", "app", "on", ">old-one", "~*", "&*", "+@all")
			return "redis://app:PASSWORD@" + s.Addr() + "/0?longest-ttl=5s", "redis://app:PASSWORD@" + s.Addr() + "/1?longest-ttl=5s", func(password string) {
				s.Do(t, "acl", "setuser", "app", "resetpass", ">"+password)
				s.Do(t, "client", "kill", "user", "app")
			}
		},
		"postgres": func(t *testing.T) (string, string, func(string)) {
			t.Helper()
			s := servers.Postgres(t, servers.PostgresOptions{})
			s.Do(t, `CREATE ROLE app SUPERUSER LOGIN PASSWORD 'old-one'`)
			return "postgres://app:PASSWORD@" + s.Addr() + "/postgres?sslmode=disable&longest-ttl=5s", "postgres://app:PASSWORD@" + s.Addr() + "/test?sslmode=disable&longest-ttl=5s", func(password string) {
				s.Do(t, `ALTER ROLE app PASSWORD '`+password+`'`)
				s.Do(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers.SkipShort(t)
			url, another, rotate := start(t)
			with := func(url, password string) string { return strings.Replace(url, "PASSWORD", password, 1) }
			b, err := Open(with(url, "old-one"))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			now := with(url, "old-one")
			b.FollowURL(now, func() (string, error) { return now, nil })
			claim := backends.Claim{Job: "job", Holder: backends.Holder{ID: "one", Host: "h"}, TTL: 5 * time.Second}
			var g backends.Grant
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				if g, err = b.Acquire(t.Context(), claim); err == nil {
					break
				}
				if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != backends.Quarantined || time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			refused := func(what, says string) {
				t.Helper()
				_, err := b.Renew(t.Context(), g)
				for deadline := time.Now().Add(time.Minute); err == nil || !backends.IsPermanent(err); _, err = b.Renew(t.Context(), g) {
					if time.Now().After(deadline) { // a connection that is gone is found so by a request
						t.Fatalf("%s: %v", what, err)
					}
				}
				if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "old-one") || strings.Contains(err.Error(), "next-one") {
					t.Errorf("%s: %v", what, err)
				}
			}
			rotate("next-one")
			refused("the old password", "")
			now = with(another, "next-one")
			refused("another store", "names another store")
			now = with(url, "next-one")
			if _, err := b.Renew(t.Context(), g); err != nil {
				t.Errorf("the new password: %v", err)
			}
			if err := b.Finish(t.Context(), g, backends.Outcome{State: backends.Done}); err != nil {
				t.Error(err)
			}
		})
	}
}
