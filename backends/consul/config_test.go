package consul

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// alone takes what Consul's programs read out of the environment.
func alone(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "CONSUL_") {
			t.Setenv(name, "")
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	type seen struct {
		Addrs, Token, Prefix, DC, Namespace, Partition string
		TLS                                            bool
	}
	for url, want := range map[string]seen{
		"consul://h":                                 {Addrs: "h:8500"},
		"consuls://h":                                {Addrs: "h:8501", TLS: true},
		"CONSUL://h:7/":                              {Addrs: "h:7"},
		"consul://:t%40k%2Fn@h":                      {Addrs: "h:8500", Token: "t@k/n"},
		"consul://:t@a,b:7,[::1]/team/jobs":          {Addrs: "a:8500,b:7,[::1]:8500", Token: "t", Prefix: "team/jobs"},
		"consul://h/a%20b/":                          {Addrs: "h:8500", Prefix: "a b"},
		"consul://h?prefix=a/b":                      {Addrs: "h:8500", Prefix: "a/b"},
		"consul://h?dc=east&namespace=n&partition=p": {Addrs: "h:8500", DC: "east", Namespace: "n", Partition: "p"},
		"consuls://h:1?server-name=x":                {Addrs: "h:1", TLS: true},
	} {
		c, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if want.Prefix == "" {
			want.Prefix = "leaderrun"
		}
		got := seen{strings.Join(c.url.Addrs, ","), c.token, c.prefix, c.dc, c.namespace, c.partition, c.tls != nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
}

// badURLs all have the token hunter2 where there may be one.
var badURLs = []string{
	"", "consul:", "http://h", "consulx://h", "consul+unix:///s", "consul://", "consul://:0", "consul://h:0", "consul://h:99999",
	"consul://:hunter2@", "consul://:hunter2@h:x", "consul://u:hunter2@h", "consul://hunter2@h", "consul://:hunter2%zz@h",
	"consul://:hunter2/x@h", "consul://:a/hunter2@h", "consul://u?hunter2@h", "consul://h,,i", "consul://:hunter2@h/a?prefix=b",
	"consul://:hunter2@h/a//b", "consul://:hunter2@h?prefix=/a", "consul://:hunter2@h?prefix=", "consul://:hunter2@h/%zz",
	"consul://:hunter2@h?foo=1", "consul://:hunter2@h?ca=x", "consul://:hunter2@h?token=hunter2", "consul://:hunter2@h?dc=", "consul://:hunter2@h?dc=a&dc=b",
	"consul://:hunter2@h?token-file=/nowhere", "consul://h?token-file=/nowhere", "consul://h?token-file=/dev/zero", "consul://h?token-file=/dev/null", "consuls://:hunter2@h?ca=/nowhere", "consuls://:hunter2@h?cert=/nowhere",
	"consul://:hunter2@a/p,b/p", "consuls://:hunter2@h?insecure=1", "consul://:hunter2@h?%zz=hunter2",
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	suite.BadURLs(t, Open, badURLs)
	_, err := Open("consuls://h?foo=1")
	p, _ := errors.AsType[*backends.PermanentError](err)
	for _, name := range []string{"prefix", "token-file", "dc", "namespace", "partition", "ca", "cert", "key", "server-name"} {
		if p == nil || !strings.Contains(p.Hint, name+" (") {
			t.Errorf("an unknown option does not name %s: %v", name, p)
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	suite.Redacted(t, Open, map[string]string{
		"consul://h":                             "consul://h:8500",
		"consul://:hunter2@a,b/team/jobs?dc=e":   "consul://:xxxxx@a:8500,b:8500/team/jobs?dc=e",
		"consuls://:hunter2@h?server-name=x.org": "consuls://:xxxxx@h:8501?server-name=x.org",
	})
	if got := open(t, "consul://h/a/b").Prefix(); got != "a/b" {
		t.Errorf("prefix %s", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	c := &config{prefix: "team/my jobs"}
	for job, want := range map[string]string{
		"nightly-report": "team/my%20jobs/nightly-report/", "a/b": "team/my%20jobs/a%2Fb/", ".": "team/my%20jobs/%2E/", "..": "team/my%20jobs/%2E%2E/",
	} {
		if got := c.dir(job); got != want {
			t.Errorf("the keys of %s are below %s, want %s", job, got, want)
		}
		if got, ok := c.jobOf(want + recordName); !ok || got != job {
			t.Errorf("the key of %s is of job %q", job, got)
		}
	}
	for _, key := range []string{"team/my%20jobs/a/lock", "team/my%20jobs/a/b/record", "other/a/record", "team/my%20jobs/record", "team/my%20jobs/%zz/record"} {
		if job, ok := c.jobOf(key); ok {
			t.Errorf("%s is of job %q", key, job)
		}
	}
}

// TestEnvironment: of what Consul's programs read from the environment only the token counts, and least of all.
func TestEnvironment(t *testing.T) {
	alone(t)
	steps := suite.On(t)
	s := server(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-env-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ADDR": "127.0.0.1:1", "AUTH": "u:p", "SSL": "true", "SSL_VERIFY": "false",
	} {
		t.Setenv("CONSUL_HTTP_"+name, value)
	}
	for name, value := range map[string]string{
		"NAMESPACE": "n", "PARTITION": "p", "CACERT": "/nowhere", "CAPATH": "/nowhere", "CLIENT_CERT": "/nowhere",
		"CLIENT_KEY": "/nowhere", "TLS_SERVER_NAME": "x",
	} {
		t.Setenv("CONSUL_"+name, value)
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	d := open(t, s.URL())
	g := steps.Acquire(d, claim("job", "a", shortTTL))
	steps.Renew(d, g)
	steps.Finish(d, g)

	token := func(url, want string) {
		t.Helper()
		c, err := parseURL(url)
		if err != nil || c.token != want {
			t.Errorf("%s: token %q, %v; want %q", url, c.token, err, want)
		}
	}
	token("consul://h", "")
	t.Setenv("CONSUL_HTTP_TOKEN", "from-env")
	token("consul://h", "from-env")
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", file)
	token("consul://h", "from-env-file")
	token("consul://:url@h", "url")
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", "/nowhere")
	token("consul://h?token-file="+file, "from-env-file")
	token("consul://:url@h", "url")
	if d, err := Open("consul://:url@h"); err != nil {
		t.Errorf("a token file of the environment that is not used: %v", err)
	} else {
		_ = d.Close()
	}
	if _, err := Open("consul://h"); !backends.IsPermanent(err) {
		t.Errorf("a token file that is not there: %v", err)
	}
}
