package redisclient

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	const secret = "pass/word?@:%"
	plain := servers.Redis(t, servers.RedisOptions{Password: secret})
	socket := servers.Redis(t, servers.RedisOptions{Unix: true})
	certificates := servers.NewCertificates(t)
	tls := servers.Redis(t, servers.RedisOptions{TLS: certificates})
	withUser := servers.Redis(t, servers.RedisOptions{ACL: []string{"user bob on >" + secret + " ~* +@all", "user default off"}})
	for _, p := range []struct{ url, password string }{
		{"redis://:pass%2Fword%3F%40%3A%25@" + plain.Addr() + "/1", ""},
		{"redis://:pass%2Fword%3F%40%3A%25@" + plain.Addr(), "other"},
		{"redis://" + plain.Addr() + "/2", secret},
		{"redis://@" + plain.Addr(), secret},
		{"redis://bob@" + withUser.Addr(), secret},
		{"redis://bob:@" + withUser.Addr(), secret},
		{"redis+unix://" + socket.Addr() + "?db=3", ""},
		{"rediss://" + tls.Addr() + "?ca=" + certificates.CA, ""},
		{"rediss://" + tls.Addr() + "?ca=" + certificates.CA + "&cert=" + certificates.ClientCert + "&key=" + certificates.ClientKey, ""},
	} {
		c, err := Open(p.url, p.password)
		if err != nil {
			t.Errorf("%s: %v", p.url, err)
			continue
		}
		if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Errorf("%s: %v", p.url, err)
		}
		_ = c.Close()
	}
}

func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                               "this is not the URL of a Redis server",
		"127.0.0.1:6379":                 "this is not the URL of a Redis server",
		"etcd://hunter2@h":               "this is not the URL of a Redis server",
		"redis+x://h":                    "this is not the URL of a Redis server",
		"rediss+unix:///s":               "this is not the URL of a Redis server",
		"redis://u:hunter2@h,i":          "the URL has more than one host",
		"redis://u:hunter2@h/x":          "the path of the URL: the database is not a number",
		"redis://u:hunter2@h/-1":         "the path of the URL: the database is not a number",
		"redis+sentinel://h":             "the URL does not name the master",
		"redis+cluster://h/1":            "a Redis Cluster has no databases: the URL ends after the hosts",
		"redis://u:hunter2@h?prefix=a":   "the URL has an option that redis:// does not know: \"prefix\"",
		"redis://u@h":                    "the URL has a user without a password",
		"redis://u:hunter2%@h":           "the user or password in the URL is not percent-encoded",
		"rediss://u:hunter2@h?ca=/none":  "option ca of the URL: open /none: no such file or directory",
		"rediss://u:hunter2@h?cert=/non": "the URL has only one of the options cert and key",
	} {
		_, err := Open(raw, "")
		if err == nil || err.Error() != want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// What was sent and not answered may have been done: to send it again would do it twice.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"redis", "redis+cluster"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		var sent atomic.Int32
		go serveAndForget(l, &sent)
		c, err := Open(scheme+"://"+l.Addr().String(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Incr(t.Context(), "n").Err(); err == nil || sent.Load() != 1 {
			t.Errorf("%s: sent %d times, %v", scheme, sent.Load(), err)
		}
		_ = c.Close()
	}
}

// serveAndForget is a Cluster of one node that breaks the connection in place of a reply.
func serveAndForget(l net.Listener, sent *atomic.Int32) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			request := make([]byte, 1000)
			for {
				n, err := conn.Read(request)
				switch {
				case err != nil:
					return
				case bytes.Contains(request[:n], []byte("incr")):
					sent.Add(1)
					return
				case !bytes.Contains(request[:n], []byte("slots")):
					fmt.Fprint(conn, "-ERR unknown command\r\n")
					continue
				}
				fmt.Fprintf(conn, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", l.Addr().(*net.TCPAddr).Port)
			}
		}()
	}
}
