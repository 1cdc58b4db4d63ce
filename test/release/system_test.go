package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// installed is a host on which dpkg has installed the package.
func installed(t *testing.T, name string, needs ...string) *host {
	t.Helper()
	deb := artefact(t, "*.deb")
	for _, server := range needs {
		servers.Require(t, server)
	}
	h := newHost(t, name)
	h.put(deb)
	h.do("dpkg -i leaderrun_*.deb")
	return h
}

// The units are right, the daemon can do little harm, and what its unit gives up on says why.
func TestUnits(t *testing.T) {
	t.Parallel()
	h := installed(t, "units", "systemd")
	if out := h.do("systemd-analyze verify --man=yes /usr/lib/systemd/system/leaderrun.service /usr/lib/systemd/system/leaderrun@.service 2>&1 | grep leaderrun || true"); out != "" {
		t.Errorf("systemd says: %s", out)
	}
	h.do("systemd-analyze security --offline=yes --threshold=30 /usr/lib/systemd/system/leaderrun.service")
	unit := h.read("/usr/lib/systemd/system/leaderrun.service")
	for _, given := range []string{"ProtectControlGroups", "PrivateNetwork", "IPAddressDeny", "MemoryDenyWriteExecute", "PrivateUsers", "ProtectProc", "ProcSubset", "UMask"} {
		if !strings.Contains(unit, "#   "+given) && !strings.Contains(unit, ", "+given) && !strings.Contains(unit, given+" ") {
			t.Errorf("the unit does not say why it does without %s", given)
		}
	}
}

func TestManualPage(t *testing.T) {
	t.Parallel()
	h := installed(t, "manual", "man")
	page := h.do("man --warnings=w -E UTF-8 -P cat leaderrun 2>warnings; test ! -s warnings || { cat warnings; exit 1; }")
	for _, part := range []string{"LEADERRUN(1)", "leaderrun run [options]", "--kill-after", "EXIT STATUS", "leaderrun doctor"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q in the page", part)
		}
	}
}

// Each shell finds its file by itself, and completes.
func TestCompletions(t *testing.T) {
	t.Parallel()
	h := installed(t, "shells", "shells")
	for shell, script := range map[string]string{
		"bash": `bash --norc -c 'source /usr/share/bash-completion/completions/leaderrun
			COMP_WORDS=(leaderrun sta) COMP_CWORD=1; _leaderrun; echo "${COMPREPLY[@]}"
			COMP_WORDS=(leaderrun run --kill-a) COMP_CWORD=2; _leaderrun; echo "${COMPREPLY[@]}"'`,
		"fish": `fish --private -c 'complete -C "leaderrun sta"; complete -C "leaderrun run --kill-a"' | cut -f 1`,
		// What zsh would show, it gives to compadd.
		"zsh": `timeout 100 zsh -f -c '
			autoload -Uz compinit; compinit -u -d /root/dump
			test "$_comps[leaderrun]" = _leaderrun
			zmodload zsh/zpty
			zpty z zsh -f -i
			zpty -w z "autoload -Uz compinit; compinit -u -d /root/dump; bindkey \"^I\" complete-word; PS1=ready-\$((1+1))"
			zpty -r z seen "*ready-2*" # the prompt: before it is there, ^U means the terminal
			zpty -w -n z $'"'leaderrun sta\\t \\C-u'"'
			zpty -r z seen "*status*"; print status
			zpty -w -n z $'"'leaderrun run --kill-a\\t \\C-u'"'
			zpty -r z seen "*--kill-after*"; print -- --kill-after'`,
	} {
		got := strings.Fields(h.do(script))
		if !slices.Equal(got, []string{"status", "--kill-after"}) {
			t.Errorf("%s completes to %q", shell, got)
		}
	}
}

// The changelog, the licence and the examples are there, and what a page of theirs calls by its path.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	h := installed(t, "documentation", "dpkg")
	const doc = "/usr/share/doc/leaderrun/"
	for installed, source := range map[string]string{
		doc + "copyright":                            "LICENSE",
		doc + "examples/crontab/crontab":             "examples/crontab/crontab",
		doc + "examples/cron/jobs.yaml":              "examples/cron/jobs.yaml",
		"/etc/leaderrun.yaml":                        "packaging/leaderrun.yaml",
		"/usr/lib/systemd/system/leaderrun@.service": "packaging/leaderrun@.service",
		"/usr/lib/tmpfiles.d/leaderrun.conf":         "packaging/tmpfiles.conf",
	} {
		want, err := os.ReadFile(filepath.Join("../..", source))
		if err != nil {
			t.Fatal(err)
		}
		if h.read(installed) != string(want) {
			t.Errorf("%s is not %s", installed, source)
		}
	}
	h.do("cp " + doc + "examples/cron/jobs.yaml /root; leaderrun cron --check jobs.yaml")
}
