package zookeeper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/test/suite"
)

func TestURL(t *testing.T) {
	t.Parallel()
	type seen struct {
		Addrs, User, Password, Dir string
		TLS                        bool
	}
	for url, want := range map[string]seen{
		"zk://h":                              {Addrs: "h:2181", Dir: "/leaderrun"},
		"ZK://h:7/":                           {Addrs: "h:7", Dir: "/leaderrun"},
		"zk://a,b:7,[::1]/some/where/":        {Addrs: "a:2181,b:7,[::1]:2181", Dir: "/some/where/leaderrun"},
		"zk://h/c?prefix=/night/jobs/":        {Addrs: "h:2181", Dir: "/c/night/jobs"},
		"zk://u%40x:p%40ss%2F%25@h/a%20b":     {Addrs: "h:2181", User: "u@x", Password: "p@ss/%", Dir: "/a b/leaderrun"},
		"zks://u:p:w@h?server-name=zookeeper": {Addrs: "h:2181", User: "u", Password: "p:w", Dir: "/leaderrun", TLS: true},
	} {
		c, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := seen{strings.Join(c.url.Addrs, ","), c.url.Login.User(), c.url.Login.Password(), c.dir, c.tls != nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
}

// badURLs all have the password hunter2 where there may be one.
var badURLs = []string{
	"", "zk:", "zk:h", "etcd://h", "zk://", "zk://h:0", "zk://h:p", "zk://h,", "zk://u:hunter2@", "zk://u@h", "zk://:hunter2@h",
	"zk://u%3Ax:hunter2@h", "zk://u:hunter2%zz@h", "zk://u:hunter2/x@h", "zk://u:hunter2?@h", "zk://u:2181?hunter2@h",
	"zk://u:hunter2@h/%zz", "zk://u:hunter2@h/a//b", "zk://u:hunter2@h/a/../b", "zk://u:hunter2@h/.", "zk://u:hunter2@h/a%00b",
	"zk://u:hunter2@h?prefix=", "zk://u:hunter2@h?prefix=a//b", "zk://u:hunter2@h?foo=1", "zk://u:hunter2@h?ca=x",
	"zk://u:hunter2@a:2181/c,b:2181/c", "zks://u:hunter2@h?ca=/nowhere", "zks://u:hunter2@h?cert=/nowhere",
}

// TestBadURL: what cannot be right is an error that shows no password.
func TestBadURL(t *testing.T) {
	t.Parallel()
	suite.BadURLs(t, Open, badURLs)
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	suite.Redacted(t, Open, map[string]string{
		"zk://h":                            "zk://h:2181",
		"zk://u:hunter2@h,i:7/c?prefix=p":   "zk://u:xxxxx@h:2181,i:7/c?prefix=p",
		"zks://u:hunter2@h/c?server-name=x": "zks://u:xxxxx@h:2181/c?server-name=x",
	})
}

// TestNamesOfNodes: each job has a node of its own, with a name that ZooKeeper takes, which tells the job.
func TestNamesOfNodes(t *testing.T) {
	t.Parallel()
	c, err := parseURL("zk://h")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, job := range []string{"a", "a/b", "a%2Fb", ".", "..", "...", "%2E", "lease", "\x00", "ä", "\ufeff", "\U0001f98a", "a b"} {
		k := c.keys(job)
		name := strings.TrimPrefix(k.record, c.dir+"/")
		if got, ok := jobOf(name); !ok || got != job || !isPath(k.lease) || strings.Contains(name, "/") || seen[name] != "" {
			t.Errorf("%q: %q, %v, %q, of %q too", job, got, ok, k.lease, seen[name])
		}
		seen[name] = job
	}
	if job, ok := jobOf("a b"); ok { // a node that is no job's
		t.Errorf("job %q", job)
	}
}
