package servers

import (
	"net/http"
	"strings"
	"testing"
)

const managementToken = "9f0a4b0e-6c1b-4d8e-8f63-0d5a5a4d1c11"

func TestConsul(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ConsulOptions{
		"plain":             {},
		"ACL":               {Token: managementToken},
		"TLS":               {TLS: NewCertificates(t)},
		"TLS, certificates": {TLS: NewCertificates(t), ClientCert: true, Token: managementToken},
		"more config":       {Config: `datacenter = "east"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *ConsulServer
			t.Cleanup(func() {
				if s != nil {
					gone(t, s.Process, s.Addr())
				}
			})
			s = Consul(t, o)
			consulAnswers(t, s)
		})
	}
}

func consulAnswers(t *testing.T, s *ConsulServer) {
	t.Helper()
	s.API(t, "PUT", "/v1/kv/k", "v")
	s.Restart(t, true)
	if got := s.API(t, "GET", "/v1/kv/k?raw", ""); got != "v" {
		t.Errorf("restarted with data: %q", got)
	}
	s.Restart(t, false)
	if got, err := s.TryAPI("GET", "/v1/kv/k?raw", ""); err == nil || !strings.Contains(err.Error(), ": 404:") {
		t.Errorf("restarted empty: %q, %v", got, err)
	}
	scheme := "consul://"
	if s.opts.TLS != nil {
		scheme = "consuls://"
	}
	if s.URL() != scheme+s.Addr() {
		t.Errorf("the URL is %s", s.URL())
	}
	if got := s.API(t, "GET", "/v1/agent/self", ""); s.opts.Config != "" && !strings.Contains(got, `"Datacenter":"east"`) {
		t.Errorf("with more configuration: %s", got)
	}
	code, text, err := stranger(s.place).ask(startTimeout, "PUT", s.place.url("http", s.Addr())+"/v1/kv/k", nil, "v")
	switch {
	case s.opts.ClientCert:
		if err == nil {
			t.Errorf("without a certificate: %d %s, %v", code, text, err)
		}
	case s.opts.Token != "":
		if err != nil || code != http.StatusForbidden {
			t.Errorf("without a token: %d %s, %v", code, text, err)
		}
	default:
		if err != nil || code != http.StatusOK {
			t.Errorf("without anything: %d %s, %v", code, text, err)
		}
	}
}

func TestConsulCluster(t *testing.T) {
	t.Parallel()
	o := ConsulOptions{Token: managementToken}
	var set *ConsulSet
	t.Cleanup(func() {
		if set == nil {
			return
		}
		for _, m := range set.Members {
			gone(t, m.Process, m.Addr())
		}
	})
	set = ConsulClusterOf(t, o, o, o)
	first := set.Leader(t)
	first.API(t, "PUT", "/v1/kv/k", "v")
	first.Kill()
	second := set.Changed(t, first)
	second.API(t, "PUT", "/v1/kv/k", "w")
	first.Restart(t, true)
	set.Agreed(t)
	if got := first.API(t, "GET", "/v1/kv/k?raw", ""); got != "w" {
		t.Errorf("the server that is back: %q", got)
	}
	second = set.Leader(t)
	second.Stop(t)
	set.Changed(t, second)
	second.Cont(t)
	set.Agreed(t)
	first.Restart(t, false)
	set.Agreed(t)
	if got := first.API(t, "GET", "/v1/kv/k?raw", ""); got != "w" {
		t.Errorf("the server that has lost its data: %q", got)
	}
	set.Restart(t, true)
	if got := second.API(t, "GET", "/v1/kv/k?raw", ""); got != "w" {
		t.Errorf("restarted with data: %q", got)
	}
	set.Restart(t, false)
	if got, err := second.TryAPI("GET", "/v1/kv/k?raw", ""); err == nil || !strings.Contains(err.Error(), ": 404:") {
		t.Errorf("restarted empty: %q, %v", got, err)
	}
}
