package examples

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// The image of the CronJob has what a pod of it starts: a shell, leaderrun where the shell looks for it, and the command.
func TestDockerfileOfTheCronJob(t *testing.T) {
	t.Parallel()
	root, w := servers.Dir(t), newWorld(t)
	made := buildImage(t, "kubernetes", "report", root)
	p, _ := cronPod(t)
	if !made.shell || p.Containers[0].Command[0] != "sh" {
		t.Errorf("the manifest starts %s, and the image has a shell: %v", p.Containers[0].Command[0], made.shell)
	}
	if err := os.Symlink(root+"/usr/local/bin/report", w.path("tools/report")); err != nil {
		t.Fatal(err)
	}
	pod := w.startPod(p, "nightly-report-26297400", "PATH="+root+"/usr/local/bin:"+root+"/usr/bin:/usr/bin:/bin")
	pod.expect(0, "the report of 2020-01-01T02:00:00Z: --full\n")
}

// image is what a Dockerfile says of the one that it makes, besides its files.
type image struct {
	user  string // UID:GID
	shell bool
}

// shells are the images that others are made from, and whether they have a shell.
var shells = map[string]bool{"scratch": false, "alpine:3": true}

// buildImage does what the Dockerfile of a folder says for one stage ("": the last), with that folder as the context, and
// nothing else in reach: no file of this module. There is no container engine: the stage that builds is a folder, and the one
// that is asked for is root, which holds nothing but what is copied there. The program comes from the test, not from the
// network.
func buildImage(t *testing.T, folder, target, root string) (made image) {
	t.Helper()
	install := regexp.MustCompile(`GOBIN=(\S+) go install github\.com/leaderrun/leaderrun@latest$`)
	b := &builder{t: t, stage: servers.Dir(t)}
	const build = "build"
	stage := ""
	for line := range strings.Lines(text(t, folder+"/Dockerfile")) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch {
		case instruction == "" || instruction == "#":
		case instruction == "FROM":
			if stage = stageOf(words); stage == build {
				b.hasGo(words[0])
			} else if stage == target {
				made.shell = b.hasShell(words[0])
			}
		case stage != build && stage != target: // another image
		case instruction == "RUN" && install.MatchString(rest):
			b.copy(bin+"/leaderrun", b.stage+install.FindStringSubmatch(rest)[1]+"/leaderrun")
		case instruction == "RUN" && stage == build:
			b.run(rest)
		case instruction == "COPY" && stage == build:
			b.copy(filepath.Join(folder, words[0]), b.stage+words[1])
		case instruction == "COPY" && words[0] == "--from="+build:
			b.copy(b.stage+words[1], root+words[2])
		case instruction == "COPY":
			b.copy(filepath.Join(folder, words[0]), root+words[1])
		case instruction == "USER":
			made.user = rest
		case instruction == "ENTRYPOINT": // the manifest names it
		default:
			t.Fatalf("what is %q in the stage %q?", line, stage)
		}
	}
	return made
}

// stageOf returns the name of a stage by what stands behind FROM; "": it has none.
func stageOf(words []string) string {
	if len(words) == 3 && words[1] == "AS" {
		return words[2]
	}
	return ""
}

// builder makes an image.
type builder struct {
	t     *testing.T
	stage string // the folder that is the root of the stage that builds
}

// hasGo checks that an image has the Go that this module wants.
func (b *builder) hasGo(image string) {
	b.t.Helper()
	wants := regexp.MustCompile(`(?m)^go [0-9]+\.[0-9]+`).FindString(text(b.t, "../go.mod"))
	if image != strings.Replace(wants, "go ", "golang:", 1) {
		b.t.Errorf("%s, and go.mod says %q", image, wants)
	}
}

// hasShell says whether an image has a shell.
func (b *builder) hasShell(image string) bool {
	b.t.Helper()
	has, known := shells[image]
	if !known {
		b.t.Errorf("what is in %s?", image)
	}
	return has
}

// copy copies a file to a file, or what is in a folder into a folder.
func (b *builder) copy(from, to string) {
	b.t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		b.t.Fatalf("COPY: %v", err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var content []byte
		content, err = os.ReadFile(from)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, info.Mode())) //nolint:gosec // an image
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// run runs a command of that stage.
func (b *builder) run(command string) {
	b.t.Helper()
	inside := strings.NewReplacer(" /src", " "+b.stage+"/src", " /out", " "+b.stage+"/out").Replace(command)
	cmd := exec.Command("sh", "-c", inside)
	cmd.Dir, cmd.Env = b.stage, os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("RUN %s: %v: %s", command, err, out)
	}
}
