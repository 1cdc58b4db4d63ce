package servers

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
)

// gone says what is left of a server when its test has ended. A cleanup asks that was registered before the server's.
func gone(t *testing.T, p *Process, addr string) {
	t.Helper()
	if !p.Ended() {
		t.Error("the server lives on")
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Errorf("somebody listens on %s", addr)
	}
}

// stranger is a client that has the authority's certificate and none of its own.
func stranger(p place) place {
	if p.tls != nil {
		p.tls = &tls.Config{RootCAs: p.tls.RootCAs, MinVersion: tls.VersionTLS12}
	}
	return p
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]EtcdOptions{
		"plain":             {},
		"password":          {Password: `p"w`, UnsafeNoFsync: true},
		"TLS":               {TLS: NewCertificates(t)},
		"TLS, certificates": {TLS: NewCertificates(t), ClientCert: true},
		"TLS and password":  {TLS: NewCertificates(t), ClientCert: true, Password: "pw"},
		"more flags":        {Args: []string{"--max-request-bytes", "1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *EtcdServer
			t.Cleanup(func() {
				if s != nil {
					gone(t, s.Process, s.Endpoint())
				}
			})
			s = Etcd(t, o)
			etcdAnswers(t, s)
		})
	}
}

func etcdAnswers(t *testing.T, s *EtcdServer) {
	t.Helper()
	s.Ctl(t, "put", "k", "v")
	s.Restart(t, true)
	if got := s.Ctl(t, "get", "--print-value-only", "k"); got != "v\n" {
		t.Errorf("restarted with data: %q", got)
	}
	s.Restart(t, false)
	if got := s.Ctl(t, "get", "--print-value-only", "k"); got != "" {
		t.Errorf("restarted empty: %q", got)
	}
	scheme := "etcd://"
	if s.opts.TLS != nil {
		scheme = "etcds://"
	}
	if _, err := s.TryCtl("put", "k", strings.Repeat("v", 2000)); (err != nil) != (s.opts.Args != nil) {
		t.Errorf("a value that is larger than a flag allows: %v", err)
	}
	if s.URL() != scheme+s.Endpoint() {
		t.Errorf("the URL is %s", s.URL())
	}
	code, text, err := stranger(s.place).ask(startTimeout, "POST", s.place.url("http", s.Endpoint())+"/v3/kv/put", nil, `{"key":"aw=="}`)
	switch {
	case s.opts.ClientCert:
		if err == nil {
			t.Errorf("without a certificate: %d %s, %v", code, text, err)
		}
	case s.opts.Password != "":
		if err != nil || code == http.StatusOK || !strings.Contains(text, "user name is empty") {
			t.Errorf("without a password: %d %s, %v", code, text, err)
		}
	default:
		if err != nil || code != http.StatusOK {
			t.Errorf("without anything: %d %s, %v", code, text, err)
		}
	}
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	o := EtcdOptions{TLS: NewCertificates(t), Password: "pw"}
	var set *EtcdSet
	t.Cleanup(func() {
		if set == nil {
			return
		}
		for _, m := range set.Members {
			gone(t, m.Process, m.Endpoint())
		}
	})
	set = EtcdClusterOf(t, o, o, o)
	first := set.Leader(t)
	first.Ctl(t, "put", "k", "v")
	first.Kill()
	second := set.Changed(t, first)
	second.Ctl(t, "put", "k", "w")
	first.Restart(t, true)
	set.Agreed(t)
	if got := first.Ctl(t, "get", "--print-value-only", "k"); got != "w\n" {
		t.Errorf("the member that is back: %q", got)
	}
	second = set.Leader(t)
	second.Stop(t)
	set.Changed(t, second)
	second.Cont(t)
	set.Agreed(t)
	set.Restart(t, true)
	if got := second.Ctl(t, "get", "--print-value-only", "k"); got != "w\n" {
		t.Errorf("restarted with data: %q", got)
	}
	set.Restart(t, false)
	if got := second.Ctl(t, "get", "--print-value-only", "k"); got != "" {
		t.Errorf("restarted empty: %q", got)
	}
}
