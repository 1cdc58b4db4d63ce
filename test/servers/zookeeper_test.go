package servers

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ZooKeeperOptions{
		"plain":             {},
		"digest":            {Digest: "user:pw"},
		"long ticks":        {TickTime: 3 * time.Second, MaxSessionTimeout: 7 * time.Second},
		"TLS":               {TLS: NewCertificates(t)},
		"TLS, certificates": {TLS: NewCertificates(t), ClientCert: true},
		"more lines":        {Lines: []string{"4lw.commands.whitelist=srvr,isro"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *ZooKeeperServer
			t.Cleanup(func() {
				if s != nil {
					gone(t, s.Process, s.Addr())
				}
			})
			s = ZooKeeper(t, o)
			zookeeperAnswers(t, s)
			zookeeperDiffers(t, s)
		})
	}
}

func put(t *testing.T, s *ZooKeeperServer, path, data string) {
	t.Helper()
	Eventually(t, "put "+path, func() bool { return s.Put(path, data) == nil }) // a busy ensemble elects a leader now and then
}

// keeps waits until a member answers, and fails the test if it has anything but data at /k; "": nothing.
func keeps(t *testing.T, who string, s *ZooKeeperServer, data string) {
	t.Helper()
	var n ZooKeeperNode
	var err error
	Eventually(t, who+" answers", func() bool {
		n, err = s.Get("/k")
		return err == nil || errors.Is(err, ErrNoNode)
	})
	if n.Data != data || (data == "") != (err != nil) {
		t.Errorf("%s has %+v, %v, want %q", who, n, err, data)
	}
}

func zookeeperAnswers(t *testing.T, s *ZooKeeperServer) {
	t.Helper()
	put(t, s, "/k", "u")
	put(t, s, "/k", "v")
	put(t, s, "/k/below", "")
	s.CLI(t, "create /typed \"by hand\"")
	s.Restart(t, true)
	n, err := s.Get("/k")
	if err != nil || n.Data != "v" || n.Version != 1 || n.Mzxid <= n.Czxid || n.Owner != 0 || n.Children != 1 {
		t.Errorf("restarted with data: %+v, %v", n, err)
	}
	if names, err := s.Children("/k"); err != nil || !slices.Equal(names, []string{"below"}) {
		t.Errorf("the children: %q, %v", names, err)
	}
	if n, err := s.Get("/typed"); err != nil || n.Data != "by hand" {
		t.Errorf("what zkCli.sh made: %+v, %v", n, err)
	}
	if out, err := s.TryCLI(t, "ls /\nget /none"); err == nil {
		t.Errorf("a command that fails: %s", out)
	}
	s.MustDelete(t, "/k")
	if n, err := s.Get("/k"); !errors.Is(err, ErrNoNode) {
		t.Errorf("deleted: %+v, %v", n, err)
	}
	put(t, s, "/k", "v")
	s.Restart(t, false)
	if n, err := s.Get("/k"); !errors.Is(err, ErrNoNode) {
		t.Errorf("restarted empty: %+v, %v", n, err)
	}
	scheme := "zk://"
	if s.opts.TLS != nil {
		scheme = "zks://"
	}
	if s.URL() != scheme+s.Addr() {
		t.Errorf("the URL is %s", s.URL())
	}
}

// zookeeperDiffers looks at what the options change.
func zookeeperDiffers(t *testing.T, s *ZooKeeperServer) {
	t.Helper()
	for asked, want := range map[time.Duration]time.Duration{
		time.Millisecond: 2 * cmp.Or(s.opts.TickTime, quickTick), time.Minute: cmp.Or(s.opts.MaxSessionTimeout, longestSession),
	} {
		c, err := s.dial(startTimeout)
		if err != nil {
			t.Fatal(err)
		}
		x := &zkSession{Conn: c}
		if err := x.open(asked); err != nil || x.timeout != want {
			t.Errorf("a session of %v: %v, %v; want %v", asked, x.timeout, err, want)
		}
		_ = c.Close()
	}
	var text string
	Eventually(t, "an answer to a word", func() (ok bool) {
		var err error
		text, err = s.Word("isro")
		return err == nil
	})
	if listed := len(s.opts.Lines) > 0; listed != strings.HasPrefix(text, "rw") {
		t.Errorf("a word that one line more allows: %q", text)
	}
	mine := s.place
	s.place = stranger(s.place)
	limit := startTimeout
	if s.opts.ClientCert { // it may be silent
		limit = statusTimeout
	}
	if err := s.ask(limit, nil); (err != nil) != s.opts.ClientCert {
		t.Errorf("without a certificate: %v", err)
	}
	s.place = mine
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	var set *ZooKeeperSet
	t.Cleanup(func() {
		if set == nil {
			return
		}
		for _, m := range set.Members {
			gone(t, m.Process, m.Addr())
		}
	})
	set = ZooKeeperEnsemble(t, 3)
	first := set.Leader(t)
	put(t, first, "/k", "v")
	first.Kill()
	second := set.Changed(t, first)
	put(t, second, "/k", "w")
	first.Restart(t, true)
	set.Agreed(t)
	keeps(t, "the member that is back", first, "w")
	second = set.Leader(t)
	second.Stop(t)
	set.Changed(t, second)
	second.Cont(t)
	set.Agreed(t)
	first.Restart(t, false)
	set.Agreed(t)
	keeps(t, "the member that has lost its data", first, "w")
	set.Restart(t, true)
	keeps(t, "a member that was restarted with its data", second, "w")
	set.Restart(t, false)
	keeps(t, "a member that was restarted empty", second, "")
}
