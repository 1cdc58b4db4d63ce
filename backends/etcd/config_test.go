package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

func TestURL(t *testing.T) {
	t.Parallel()
	type seen struct {
		Addrs, User, Password, Prefix string
		TLS                           bool
	}
	for url, want := range map[string]seen{
		"etcd://h":                       {Addrs: "h:2379", Prefix: "leaderrun"},
		"etcd://h/":                      {Addrs: "h:2379", Prefix: "leaderrun"},
		"ETCD://h:7":                     {Addrs: "h:7", Prefix: "leaderrun"},
		"etcd://a,b:7,[::1],[::2]:9/p":   {Addrs: "a:2379,b:7,[::1]:2379,[::2]:9", Prefix: "p"},
		"etcd://h/team/a%2Fb/":           {Addrs: "h:2379", Prefix: "team/a/b"},
		"etcd://h//p":                    {Addrs: "h:2379", Prefix: "/p"},
		"etcd://h?prefix=/p/":            {Addrs: "h:2379", Prefix: "/p"},
		"etcd://h/?prefix=p":             {Addrs: "h:2379", Prefix: "p"},
		"etcd://u:p:w@h":                 {Addrs: "h:2379", User: "u", Password: "p:w", Prefix: "leaderrun"},
		"etcd://u%40x:p%40ss%2F%25@h,i":  {Addrs: "h:2379,i:2379", User: "u@x", Password: "p@ss/%", Prefix: "leaderrun"},
		"etcds://u:p@h?server-name=etcd": {Addrs: "h:2379", User: "u", Password: "p", Prefix: "leaderrun", TLS: true},
	} {
		c, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := seen{strings.Join(c.url.Addrs, ","), c.url.Login.User(), c.url.Login.Password(), c.prefix, c.tls != nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
}

// badURLs all have the password hunter2 where there may be one.
var badURLs = []string{
	"", "etcd:", "etcd:h", "http://h", "etcdx://h", "etcd+unix:///s", "etcd://", "etcd://:0", "etcd://h:0", "etcd://h:99999", "etcd://h:p", "etcd://::1",
	"etcd://h,", "etcd://u:hunter2@", "etcd://u:hunter2@h:x", "etcd://u@h", "etcd://u:@h", "etcd://:hunter2@h", "etcd://u:hunter2%zz@h",
	"etcd://u:hunter2/x@h", "etcd://u:hunter2?@h", "etcd://u:2379?hunter2@h", "etcd://u:2379?a=hunter2@h", "etcd://u:hunter2@h/%zz",
	"etcd://u:hunter2@h?foo=1", "etcd://u:hunter2@h?ca=x", "etcd://u:hunter2@h?prefix=", "etcd://u:hunter2@h?prefix=a&prefix=b", "etcd://u:hunter2@h/a?prefix=a",
	"etcd://u:hunter2@h?%zz=hunter2", "etcds://u:hunter2@h?insecure=1", "etcds://u:hunter2@h?ca=/nowhere", "etcds://u:hunter2@h?ca=config.go",
	"etcd://u:hunter2@a/p,b/p", "etcds://u:hunter2@h?cert=/nowhere", "etcds://u:hunter2@h?cert=/nowhere&key=/nowhere",
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	suite.BadURLs(t, Open, badURLs)
	_, err := Open("etcd://h?nosuch=1")
	if p, ok := errors.AsType[*backends.PermanentError](err); !ok || !strings.Contains(p.Hint, "prefix (") || strings.Contains(p.Hint, "server-name") {
		t.Errorf("the hint lists what this URL may have: %+v", p)
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	suite.Redacted(t, Open, map[string]string{
		"etcd://h":                   "etcd://h:2379",
		"etcd://u:hunter2@h,i:7/p/q": "etcd://u:xxxxx@h:2379,i:7/p/q",
		"etcds://u:hunter2@h?prefix=p&server-name=x": "etcds://u:xxxxx@h:2379?prefix=p&server-name=x",
	})
}

// FuzzURL: whatever the URL, nothing shows its password, and nothing panics.
func FuzzURL(f *testing.F) { suite.FuzzURL(f, Open, badURLs, form.Shapes) }

func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, prefix := range []string{"p", "p/a", "p/a/lease"} {
		c := &config{prefix: prefix}
		for _, job := range []string{"", "a", "a b", "a/b", "a%2Fb", "a%2fb", "a/lease", "lease", "record", "a\n", "ü", "a\x00", "\xff", "%", "%25", "*", "..", "a\u202eb"} {
			k := c.keys(job)
			for _, key := range []string{string(k.lease), string(k.record), string(k.beat)} {
				if other, ok := seen[key]; ok {
					t.Errorf("%q below %q and %s share the key %q", job, prefix, other, key)
				}
				seen[key] = fmt.Sprintf("%q below %q", job, prefix)
				if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
					t.Errorf("%q cannot be typed", key)
				}
				for _, other := range []string{"p", "p/a", "p/a/lease", "q"} {
					got, ok := (&config{prefix: other}).jobOf(key)
					if want := other == prefix && key == string(k.record); ok != want || ok && got != job {
						t.Errorf("job of %q below %q: %q, %v", key, other, got, ok)
					}
				}
			}
		}
	}
}

const secret = "s3cr:t/p@ss%word \"$"

// TestRefusedAccess: each reason has its kind and a remedy, and nothing shows the password.
func TestRefusedAccess(t *testing.T) {
	t.Parallel()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	plain := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true})
	users := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true, Password: secret})
	users.Ctl(t, "user", "add", "nobody", "--new-user-password", secret)
	secure := servers.Etcd(t, servers.EtcdOptions{UnsafeNoFsync: true, TLS: certs, ClientCert: true})
	escaped := "s3cr%3At%2Fp%40ss%25word%20%22$"
	mine := "cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	for _, c := range []struct {
		what, url string
		kind      backends.PermanentKind
		hint      string
	}{
		{"a wrong password", "etcd://root:" + escaped + "x@" + users.Endpoint(), backends.Credentials, "percent-encoded"},
		{"an unknown user", "etcd://who:" + escaped + "@" + users.Endpoint(), backends.Credentials, "percent-encoded"},
		{"no user", "etcd://" + users.Endpoint(), backends.Credentials, "etcd://USER:PASSWORD@HOST"},
		{"no rights", "etcd://nobody:" + escaped + "@" + users.Endpoint() + "/x", backends.Credentials, "readwrite --prefix x/"},
		{"a user where there are none", "etcd://root:" + escaped + "@" + plain.Endpoint(), backends.Configuration, "leave user and password out"},
		{"no client certificate", "etcds://" + secure.Endpoint() + "?ca=" + certs.CA, backends.Credentials, "?cert=FILE"},
		{"a client certificate of somebody else", "etcds://" + secure.Endpoint() + "?ca=" + certs.CA + "&cert=" + others.ClientCert + "&key=" + others.ClientKey, backends.Credentials, "?cert=FILE"},
		{"a server of somebody else", "etcds://" + secure.Endpoint() + "?ca=" + others.CA + "&" + mine, backends.Configuration, "?ca=FILE"},
		{"another name", "etcds://" + secure.Endpoint() + "?server-name=other&ca=" + certs.CA + "&" + mine, backends.Configuration, "?server-name="},
	} {
		d := open(t, c.url)
		for step, err := range suite.On(t).EveryStep(d, newClaim("job")) {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != c.kind || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("%s: %s: %v (%+v)", c.what, step, err, p)
				continue
			}
			if strings.Contains(err.Error()+p.Hint, "s3cr") {
				t.Errorf("%s: %s shows the password: %v (%s)", c.what, step, err, p.Hint)
			}
		}
		news, err := d.Watch(t.Context(), "job")
		if err != nil {
			t.Errorf("%s: Watch: %v", c.what, err)
			continue
		}
		select {
		case n, open := <-news: // no retry helps
			if open {
				t.Errorf("%s: the watch says %+v", c.what, n)
			}
		case <-time.After(suite.Patience):
			t.Errorf("%s: the watch goes on", c.what)
		}
	}
}
