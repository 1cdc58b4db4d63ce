package examples

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
)

// The Redis of the documentation: that of the leases, and one that a job writes to.
const (
	documentedServer = "redis://redis.example.com"
	documentedShop   = "redis://shop.example.com"
)

// unrun are the blocks of commands that no test runs, by their text, and why.
var unrun = map[string]string{
	"make test": "this test is part of it",
	"go run ./scripts/bench run -json run.json                 # about 10 minutes\n" +
		"go run ./scripts/bench cron -jobs 1000 -json cron.json    # about 8 minutes\n" +
		"go run ./scripts/bench tables -in run.json,cron.json      # the tables of this page": "it needs an idle machine",
	"make bed DURATION=1h            # everything breaks at random, on all stores at once\n" +
		"make bed SEED=7 STORE=etcd3     # one store, and the same faults again\n" +
		"make bed CAST=divided           # jobs with slots and shards\n" +
		"make bed EACH=.                 # each fault once and by itself, and the peers beside it\n" +
		"make model                          # every order of events of a small world": "it takes minutes; a short one is a test",
	"kubectl apply -f https://raw.githubusercontent.com/leaderrun/leaderrun/main/backends/kubernetes/role.yaml\n" +
		"kubectl apply -f deployment.yaml\n" +
		"kubectl get lease leaderrun-feed    # who runs it": "there is no kubectl: the test of the example gives the files to an API server",
	"docker build --tag registry.example.com/feed .\n" +
		"docker push registry.example.com/feed": "there is no Docker: the test of the example follows the Dockerfile by hand",
	"docker build --target report --tag registry.example.com/report .\n" +
		"docker push registry.example.com/report": "there is no Docker: the test of the example follows the Dockerfile by hand",
	"kubectl create secret generic leaderrun --from-file=backend=/etc/leaderrun/backend\n" +
		"kubectl apply -f cronjob.yaml": "there is no kubectl: the test of the example compares it with the manifest",
	"make mutants                        # the tests notice\n" +
		"go run ./scripts/mutants -bed       # the bed notices": "it takes an hour",
	"git worktree add /tmp/before d445b2b\n" +
		"(cd /tmp/before && make build)\n" +
		"go run ./scripts/bench run -beside /tmp/before/leaderrun -only 'leaderrun, (file|Redis)' -n 800 -handovers 0 -footprints 0 -spans 0": "it needs an idle machine",
	"go run ./scripts/bench cron -jobs 10,1000,10000": "it needs an idle machine, and an hour",
	"make build     # ./leaderrun\n" +
		"make test      # what answers in minutes\n" +
		"make test-all  # everything\n" +
		"make lint      # the linters, go mod tidy, go vet for macOS and FreeBSD, known vulnerabilities\n" +
		"make fmt": "CI runs all but the first and the last; users build",
}

// changesHost is what no block may do that is run here, as root perhaps.
var changesHost = regexp.MustCompile(`(?m)(^|[$;&|(]) *(sudo +)?(dpkg|apt|apt-get|rpm|dnf|yum|apk|brew|systemctl|crontab|useradd) .*|> ?/(etc|usr|var|root)/.*`)

// block is a block of commands in a page.
type block struct {
	page, language, text string
	line                 int
}

// name is where a block is.
func (b block) name() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// blocks returns the blocks of all pages that hold commands: sh is a script that ends at the first failure,
// console is commands after "$ ", each followed by what it prints, in which … stands for any text in a line, and for any lines where
// it is alone in one. "# exit N" at the end of a command says its exit code, and bash is what changes a host: test/release runs it on
// hosts of its own.
func blocks(t *testing.T) []block {
	t.Helper()
	var found []block
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || path != ".." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		page := strings.TrimPrefix(filepath.ToSlash(path), "../")
		var open *block
		n := 0
		for line := range strings.Lines(text(t, path)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && open == nil:
				if fence == "" {
					t.Errorf("%s:%d: a block without a language: sh and console are run, text is not", page, n)
				}
				open = &block{page: page, language: fence, line: n}
			case isFence:
				if open.language == "sh" || open.language == "console" {
					open.text = strings.TrimSuffix(open.text, "\n")
					found = append(found, *open)
				}
				open = nil
			case open != nil:
				open.text += line + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s: the block is not closed", open.name())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	all := blocks(t)
	if len(all) < 5 {
		t.Fatalf("only %d blocks were found", len(all))
	}
	for text := range unrun {
		if !slices.ContainsFunc(all, func(b block) bool { return b.text == text }) {
			t.Errorf("no page has the block that is not to be run: %q", text)
		}
	}
	server := ""
	if _, err := exec.LookPath("redis-server"); err == nil {
		r := servers.Redis(t, servers.RedisOptions{})
		server = r.Addr()
		// On a server that has just been started the first run would wait, and say so: docs/backends.md, quarantine.
		servers.Eventually(t, "the server is no new one", func() bool {
			up, err := strconv.Atoi(r.Info(t, "server", "uptime_in_seconds"))
			return err == nil && up > 31
		})
	}
	for _, b := range all {
		if unrun[b.text] != "" {
			continue
		}
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			if m := changesHost.FindString(b.text); m != "" {
				t.Fatalf("%q would change this machine: a block of bash is not run here", m)
			}
			w := newWorld(t)
			for _, name := range []string{"report", "dump", "make"} {
				w.tool(name, "true")
			}
			redis := "redis://" + server
			if strings.Contains(b.text, documentedServer) {
				servers.Require(t, "redis")
				redis += fmt.Sprintf("?prefix=%d%s", b.line, filepath.Base(b.page)) // blocks run side by side
			}
			commands := strings.NewReplacer(
				documentedServer, redis, documentedShop, "redis://"+server, "--backend file: ", "--backend file://"+w.path("store")+" ",
				"go run .", "go run -C "+absolute(t, "..")+" .", "-svg ", "-svg "+w.dir+"/", // where the command runs is not where the block does
			).Replace(b.text)
			w.env = append(goEnvironment(t), "HOME="+w.path("home"), "PATH="+w.path("tools")+":"+bin+":"+os.Getenv("PATH"))
			if b.language == "sh" {
				printed := w.script(commands)
				if b.page == "docs/design/elections.md" {
					w.fitsElections(printed)
				}
			} else {
				w.session(commands)
			}
		})
	}
}

// goEnvironment is the environment with the folders of the go command, which are below HOME else. Without cgo the program is
// compiled already, by RunWithProgram: on a busy machine a second time takes minutes.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	names := []string{"GOPATH", "GOMODCACHE", "GOCACHE"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "CGO_ENABLED=0")
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env
}

var exitComment = regexp.MustCompile(`\s+# exit ([0-9]+)$`)

// script runs a block of sh, and returns what it printed.
func (w *world) script(commands string) string {
	w.t.Helper()
	want := 0
	if m := exitComment.FindStringSubmatch(commands); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	code, output := w.shell("sh", "-e", "-c", commands)
	if code != want {
		w.t.Errorf("exit code %d, want %d\n%s", code, want, output)
	}
	return output
}

// session runs a block of console, in one shell.
func (w *world) session(block string) {
	w.t.Helper()
	type step struct {
		command string
		want    int
		output  string
	}
	var steps []step
	for line := range strings.Lines(block + "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case ok:
			s := step{command: strings.TrimSuffix(command, "\n")}
			if m := exitComment.FindStringSubmatch(s.command); m != nil {
				s.want, _ = strconv.Atoi(m[1])
			}
			steps = append(steps, s)
		case len(steps) == 0:
			w.t.Fatalf("a console block begins with a command after \"$ \": %q", line)
		default:
			steps[len(steps)-1].output += line
		}
	}
	var script strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&script, "{ %s\n} >%[2]s/output%[3]d 2>&1\necho $? >%[2]s/code%[3]d\n", s.command, w.dir, i)
	}
	w.shell("bash", "-c", script.String())
	for i, s := range steps {
		if got := w.read(fmt.Sprint("code", i)); got != fmt.Sprintln(s.want) {
			w.t.Errorf("$ %s\nexit code %s, want %d", s.command, got, s.want)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(s.output), "…", ".*")
		pattern = strings.ReplaceAll(pattern, "\n.*\n", "\n(?s:.*)")
		if got := w.read(fmt.Sprint("output", i)); !regexp.MustCompile(`^` + pattern + `$`).MatchString(got) {
			w.t.Errorf("$ %s\ngot:\n%s\nwant:\n%s", s.command, got, s.output)
		}
	}
}

// shell runs a script to its end.
func (w *world) shell(words ...string) (code int, output string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute) // it may compile
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// What the page about the architecture names is where its links lead.
func TestArchitectureIsWhereItSays(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`\[`+"`"+`(\w+)`+"`"+`\]\(\.\./\.\./([\w/.]+)\)`).FindAllStringSubmatch(text(t, "../docs/design/architecture.md"), -1)
	if len(links) < 15 {
		t.Errorf("%d links to code", len(links))
	}
	for _, l := range links {
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + l[1] + `\(`).MatchString(text(t, "../"+l[2])) {
			t.Errorf("%s has no function %s", l[2], l[1])
		}
	}
}

// The pages say what the program says.
func TestPagesFitTheProgram(t *testing.T) {
	t.Parallel()
	leaderrun := func(words ...string) string {
		cmd := exec.Command(bin+"/leaderrun", words...)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, _ := cmd.CombinedOutput() // some are meant to fail
		return string(out)
	}

	t.Run("exit codes", func(t *testing.T) {
		t.Parallel()
		page := firstCells(text(t, "../docs/exit-codes.md"), "code")
		var help []string
		for _, m := range regexp.MustCompile(`(?m)^  ([0-9]+(?:\+N)?(?:, [0-9]+)*)(?: or -E N)? `).FindAllStringSubmatch(leaderrun("help", "exit-codes"), -1) {
			help = append(help, strings.Split(m[1], ", ")...)
		}
		slices.Sort(page)
		slices.Sort(help)
		if !slices.Equal(page, help) {
			t.Errorf("docs/exit-codes.md has %q, `leaderrun help exit-codes` has %q", page, help)
		}
	})

	backendsPage := text(t, "../docs/backends.md")

	t.Run("options of URLs", func(t *testing.T) {
		t.Parallel()
		for store, urls := range map[string][]string{
			"Redis":      {"redis+sentinel://h/master", "redis+unix:///s", "rediss://h", "redis+cluster://h"},
			"etcd":       {"etcds://h"},
			"Consul":     {"consuls://h"},
			"ZooKeeper":  {"zks://h"},
			"PostgreSQL": {"postgres://u:p@h"},
			"Kubernetes": {"k8s://h"},
		} {
			var page []string
			for _, cell := range firstCells(backendsPage, "option of "+store) {
				for name := range strings.SplitSeq(cell, ", ") {
					page = append(page, strings.Trim(name, "`"))
				}
			}
			var known []string
			for _, url := range urls {
				said := leaderrun("run", "--backend", url+"?no-such-option=1", "job", "/bin/true")
				_, list, ok := strings.Cut(said, "hint: options: ")
				if !ok {
					t.Fatalf("%s: no list of options in %q", url, said)
				}
				for _, m := range regexp.MustCompile(`([a-z_-]+) \(`).FindAllStringSubmatch(list, -1) {
					known = append(known, m[1])
				}
			}
			slices.Sort(page)
			slices.Sort(known)
			if known = slices.Compact(known); !slices.Equal(page, known) {
				t.Errorf("docs/backends.md has the options %q of %s, the program knows %q", page, store, known)
			}
		}
	})

	t.Run("transactions", func(t *testing.T) { // tests of sqlfence run what is printed
		t.Parallel()
		page := text(t, "../docs/fencing.md")
		for _, dialect := range []string{"postgres", "mysql", "sqlite"} {
			var last string // the example with the fence and the row for a tick
			for paragraph := range strings.SplitSeq(leaderrun("fence", "sql", "--dialect", dialect), "\n--\n") {
				if lines, ok := strings.CutPrefix(paragraph, "--   "); ok {
					last = strings.ReplaceAll(lines, "\n--   ", "\n")
				}
			}
			if last == "" || !strings.Contains(page, "```text\n"+last+"\n```") {
				t.Errorf("docs/fencing.md does not show what `leaderrun fence sql --dialect %s` prints: %s", dialect, last)
			}
		}
	})

	t.Run("rights", func(t *testing.T) {
		t.Parallel()
		for _, file := range []string{"redis/acl.txt", "etcd/role.txt", "consul/policy.hcl", "zookeeper/acl.txt", "postgres/role.sql", "kubernetes/role.yaml"} { // tests of the drivers apply them
			if rights := strings.TrimSpace(text(t, "../backends/"+file)); !strings.Contains(backendsPage, "\n"+rights+"\n```") {
				t.Errorf("docs/backends.md does not show backends/%s: %s", file, rights)
			}
		}
	})

	t.Run("take-over", func(t *testing.T) {
		t.Parallel()
		const column = 3
		rows := tableRows(backendsPage, "backend")
		if len(rows) == 0 {
			t.Fatal("docs/backends.md has no table of backends")
		}
		for _, row := range rows {
			for _, m := range regexp.MustCompile("`([a-z]+:)(//)?`").FindAllStringSubmatch(row[1], -1) {
				url := m[1]
				if m[2] != "" {
					url += "//host"
				}
				switch m[1] {
				case "file:": // nor is the directory of this machine a test's
					url = "file://" + t.TempDir()
				case "postgres:", "postgresql:": // nobody is nobody's default
					url = m[1] + "//user:password@host"
				case "k8s:":
					url += "?kubeconfig=testdata/kubeconfig.yaml"
				}
				store, err := all.Open(url)
				if err != nil {
					t.Errorf("%s: %v", url, err)
					continue
				}
				want := store.Limits().TakeOver(runner.DefaultTTL)
				if m[1] == "file:" { // the kernel releases the lock of whoever dies
					want = 0
				}
				if said, err := time.ParseDuration(strings.ReplaceAll(row[column], " ", "")); err != nil || said != want.Round(time.Second) {
					t.Errorf("docs/backends.md says that a standby takes over within %s on %s, the driver says %v", row[column], url, want)
				}
				_ = store.Close()
			}
		}
	})

	t.Run("schemes", func(t *testing.T) {
		t.Parallel()
		_, list, _ := strings.Cut(leaderrun("run", "--backend", "nonsense://", "job", "/bin/true"), "hint: this build has ")
		for scheme := range strings.SplitSeq(strings.TrimSpace(list), ", ") {
			if scheme == "" || !strings.Contains(text(t, "../docs/backends.md"), "\n"+scheme+":") {
				t.Errorf("docs/backends.md does not show a URL of %q", scheme)
			}
		}
	})
}

// firstCells returns the first cells of the table whose first column has a title.
func firstCells(page, title string) []string {
	var cells []string
	for _, row := range tableRows(page, title) {
		cells = append(cells, row[0])
	}
	return cells
}

// tableRows returns the cells of the table whose first column has a title, row by row.
func tableRows(page, title string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(page) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		switch {
		case !isRow:
			inside = false
		case cells[0] == title:
			inside = true
		case inside && cells[0] != "---":
			rows = append(rows, cells)
		}
	}
	return rows
}
