package release

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// firstJob returns what README tells to do on every host, and then on one of them: the blocks of bash of one section. Only
// this test runs them.
func firstJob(t *testing.T) (everywhere, somewhere string) {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The first job\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```bash\n(.*?)```\n").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of bash below \"The first job\", not two: for every host, and what it came to", len(blocks))
	}
	return blocks[0][1], blocks[1][1]
}

// From the package to a job that runs once a minute on one of two hosts, each with a cron of its own: as README says, and nothing else.
func TestFirstJob(t *testing.T) {
	t.Parallel()
	everywhere, somewhere := firstJob(t)
	servers.Require(t, "redis")
	servers.Require(t, "cron")
	network := hosts.NewNetwork(t, "one", "two", "redis")
	dir := servers.Dir(t)
	server := network.Where("redis")
	server = append(server, "redis-server", "--bind", network.Address("redis"), "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", dir)
	servers.Start(t, dir, server[0], server[1:]...)
	ask := append(network.Where("redis"), "redis-cli", "-h", network.Address("redis"), "info", "server")
	deb := artefact(t, "*.deb") // which takes as long as the server is to be old
	// On a server that has just been started the first run would wait, and say so: docs/backends.md, quarantine.
	servers.Eventually(t, "the server is no new one", func() bool {
		up := regexp.MustCompile(`uptime_in_seconds:(3[2-9]|[4-9][0-9]|[0-9]{3,})\r`)
		return up.MatchString(said(ask...))
	})

	both := []*host{newHost(t, "one", network.Where("one")...), newHost(t, "two", network.Where("two")...)}
	for _, h := range both {
		h.do("echo '" + network.Address("redis") + " redis.example.com' >>/etc/hosts")
		h.put(deb)
		words := h.words("cron", "-f")
		servers.Start(t, dir, words[0], words[1:]...)
	}
	for _, h := range both {
		h.do(everywhere)
	}

	noMail := func() {
		for _, h := range both {
			if mails := h.read("/var/tmp/mails"); mails != "" {
				t.Fatalf("cron sent a mail:\n%s", mails)
			}
		}
	}
	// At the second tick both hosts have come for the first one.
	var runs []string
	for _, n := range []int{1, 2} {
		servers.Eventually(t, "another tick", func() bool {
			noMail()
			runs = strings.Fields(both[0].read("/var/tmp/hello") + both[1].read("/var/tmp/hello"))
			return len(slices.Compact(slices.Sorted(slices.Values(runs)))) >= n
		})
	}
	slices.Sort(runs)
	if len(slices.Compact(slices.Clone(runs))) != len(runs) {
		t.Errorf("a tick ran twice: %q", runs)
	}
	noMail()
	for _, h := range both {
		if got := h.do(somewhere); !strings.Contains(got, "hello") {
			t.Errorf("README's last command says %q", got)
		}
	}
}

// said returns what a program says, whatever it ends with.
func said(words ...string) string {
	out, _ := command(words...).CombinedOutput()
	return string(out)
}
