package redis

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/redisurl"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestURL(t *testing.T) {
	t.Parallel()
	type seen struct {
		Addrs                    string
		User, Password, Master   string
		DB                       int
		TLS                      bool
		Prefix                   string
		Replicas                 int
		Longest                  time.Duration
		SentinelUser, SentinelPW string
	}
	plain := func(s seen) seen {
		if s.Prefix == "" {
			s.Prefix = "leaderrun"
		}
		if s.Longest == 0 {
			s.Longest = 30 * time.Second
		}
		return s
	}
	for url, want := range map[string]seen{
		"redis://h":                                {Addrs: "h:6379", Replicas: -1},
		"redis://h:7":                              {Addrs: "h:7", Replicas: -1},
		"redis://h/":                               {Addrs: "h:6379", Replicas: -1},
		"redis://[::1]:7/3":                        {Addrs: "[::1]:7", DB: 3, Replicas: -1},
		"redis://[::1]":                            {Addrs: "[::1]:6379", Replicas: -1},
		"redis://:p%40ss%2F@h":                     {Addrs: "h:6379", Password: "p@ss/", Replicas: -1},
		"redis://u:p:w@h":                          {Addrs: "h:6379", User: "u", Password: "p:w", Replicas: -1},
		"redis://u:p@w@h":                          {Addrs: "h:6379", User: "u", Password: "p@w", Replicas: -1},
		"rediss://h:7?prefix=a:b&replicas=0":       {Addrs: "h:7", TLS: true, Prefix: "a:b"},
		"redis+unix:///run/r.sock?db=2":            {Addrs: "/run/r.sock", DB: 2, Replicas: -1},
		"redis+unix://u:p@/run/r.sock":             {Addrs: "/run/r.sock", User: "u", Password: "p", Replicas: -1},
		"redis+sentinel://a,b:7/main":              {Addrs: "a:26379,b:7", Master: "main", Replicas: -1},
		"redis+sentinel://u:p@a,[::1]:7/my%2Fm/4":  {Addrs: "a:26379,[::1]:7", User: "u", Password: "p", Master: "my/m", DB: 4, Replicas: -1},
		"redis+sentinel://a/m?sentinel-user=s":     {Addrs: "a:26379", Master: "m", SentinelUser: "s", Replicas: -1},
		"rediss+sentinel://a/m?sentinel-password=": {Addrs: "a:26379", Master: "m", TLS: true, Replicas: -1},
		"redis+cluster://a,b,c:1?longest-ttl=90":   {Addrs: "a:6379,b:6379,c:1", Longest: 90 * time.Second, Replicas: -1},
		"rediss+cluster://a?longest-ttl=0.5d":      {Addrs: "a:6379", TLS: true, Longest: 12 * time.Hour, Replicas: -1},
		"redis://h?longest-ttl=1m":                 {Addrs: "h:6379", Longest: time.Minute, Replicas: -1},
	} {
		c, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := seen{
			strings.Join(c.Addrs, ","), c.Login.User(), c.Login.Password(), c.Master, c.DB, c.TLS != nil, c.prefix, c.replicas, c.longest,
			c.SentinelUser, c.SentinelPassword,
		}
		if diff := cmp.Diff(plain(want), got); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
}

// badURLs all have the password hunter2 where there may be one.
var badURLs = []string{
	"", "redis:", "http://h", "redisx://h", "redis+foo://h", "redis+://h", "redisss://h", "rediss+unix:///s", "redis://", "redis://:0", "redis://h:0",
	"redis://h:99999", "redis://h:p", "redis://:hunter2@", "redis://:hunter2@h:x", "redis://h,i", "redis://::1", "redis://h/x", "redis://h/-1",
	"redis://u@h", "redis://:hunter2%zz@h", "redis://:hunter2/x@h", "redis://:hunter2/@h/0", "redis://:a/hunter2@h", "redis://u:6379?hunter2@h", "redis://u:6379?a=hunter2@h", "redis://u:?hunter2@h",
	"redis://:hunter2@h?foo=1", "redis://:hunter2@h?ca=x", "redis://:hunter2@h?db=1", "redis://:hunter2@h?sentinel-password=hunter2",
	"redis://:hunter2@h?replicas=-1", "redis://:hunter2@h?replicas=x", "redis://:hunter2@h?longest-ttl=0", "redis://:hunter2@h?longest-ttl=-1s",
	"redis://:hunter2@h?longest-ttl=x", "redis://:hunter2@h?prefix=", "redis://:hunter2@h?prefix=a&prefix=b", "redis://:hunter2@h?%zz=hunter2",
	"rediss://:hunter2@h?insecure=1", "rediss://:hunter2@h?ca=/nowhere", "rediss://:hunter2@h?cert=/nowhere", "rediss://:hunter2@h?cert=/nowhere&key=/nowhere",
	"redis+unix://", "redis+unix://h", "redis+unix://:hunter2@sock", "redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://:hunter2@a/m/x",
	"redis+cluster://:hunter2@a/1", "redis+cluster://", "redis+cluster://a,,b",
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	suite.BadURLs(t, Open, badURLs)
	_, err := Open("redis://h?nosuch=1")
	if p, ok := errors.AsType[*backends.PermanentError](err); !ok || !strings.Contains(p.Hint, "longest-ttl (") || strings.Contains(p.Hint, "sentinel-user") {
		t.Errorf("the hint lists what exists: %+v", p)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	suite.Redacted(t, Open, map[string]string{
		"redis://h":                    "redis://h:6379",
		"redis://:hunter2@h/2":         "redis://:xxxxx@h:6379/2",
		"redis+unix:///run/s?db=2":     "redis+unix:///run/s?db=2",
		"redis://u:hunter2@h?prefix=p": "redis://u:xxxxx@h:6379?prefix=p",
		"redis+sentinel://u:hunter2@a,b/m?sentinel-password=hunter2": "redis+sentinel://u:xxxxx@a:26379,b:26379/m?sentinel-password=xxxxx",
	})
}

// FuzzURL: whatever the URL, nothing shows its password, and nothing panics.
func FuzzURL(f *testing.F) { suite.FuzzURL(f, Open, badURLs, redisurl.Shapes) }

func TestKeys(t *testing.T) {
	t.Parallel()
	c := &config{prefix: "a{b}:c"}
	seen := map[string]string{}
	for _, job := range []string{"a", "a b", "{a}", "a}", "a|b", "a%7Cb", "a:lease", "a\n", "ü", "a\x00", "%", "%25", "*", "a?[b]"} {
		for _, key := range c.keys(job)[:2] {
			if other, ok := seen[key]; ok {
				t.Errorf("%q and %q share the key %q", job, other, key)
			}
			seen[key] = job
		}
		if got, ok := c.jobOf(c.key(job, "record")); !ok || got != job {
			t.Errorf("job of %q: %q", c.key(job, "record"), got)
		}
		if slotOf(c.key(job, "lease")) != slotOf(c.key(job, "record")) {
			t.Errorf("%q: the keys are in two slots", job)
		}
	}
	// The example of the specification, and what CLUSTER KEYSLOT says.
	if got := slotOf("123456789"); got != 12739 {
		t.Errorf("slot of 123456789: %d, want 12739", got)
	}
	s := servers.Redis(t, servers.RedisOptions{Cluster: true})
	for key := range seen {
		if want := s.Do(t, "cluster", "keyslot", key); want != int64(slotOf(key)) {
			t.Errorf("slot of %q: %d, want %v", key, slotOf(key), want)
		}
	}
}

// TestClassify: what servers of other versions and proxies say.
func TestClassify(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s3cr3t", 30)
	for text, want := range map[string]backends.PermanentKind{
		"ERR ACL failure in script: User x has no permissions to run the 'info' command script: 01ab": backends.Credentials,
		"ERR Unknown command called from script script: 01ab":                                         backends.Configuration,
		"remote error: tls: certificate required":                                                     backends.Credentials,
		"remote error: tls: internal error":                                                           0,
		"remote error: tls: handshake failure":                                                        backends.Credentials, // over TLS 1.2: no certificate
		"ERR proxy: remote error: tls: certificate required":                                          0,                    // of another connection than ours
		"LOADING Redis is loading the dataset in memory":                                              0,
		"READONLY You can't write against a read only replica.":                                       0,
		// Cut after 128 bytes: the password is not to be recognised.
		"ERR unknown command 'auth', with args beginning with: 'u' '" + long[:100] + "'": backends.Configuration,
	} {
		said := errors.New(text)
		if alert, ok := strings.CutPrefix(text, "remote error: "); ok {
			said = &net.OpError{Op: "remote error", Err: errors.New(alert)} // as crypto/tls has it
		}
		err := classify(&config{Target: redisurl.Target{URL: backendurl.URL{Login: backendurl.NewLogin("", long)}}}, said)
		var kind backends.PermanentKind
		if p, ok := errors.AsType[*backends.PermanentError](err); ok {
			kind = p.Kind
		}
		if kind != want || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: kind %d, %v", text, kind, err)
		}
	}
}

// The client's own retries are off. A script goes out on a connection of its own, which hides them for now; whoever asks
// again has to know when the first request was sent.
func TestClientDoesNotRetry(t *testing.T) {
	t.Parallel()
	if o := (&config{}).options("127.0.0.1:1"); o.MaxRetries != -1 || o.DialerRetries != 1 {
		t.Errorf("%d retries of a command and %d tries to connect, want none (-1) and one", o.MaxRetries, o.DialerRetries)
	}
}
