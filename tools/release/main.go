// Release makes what a release consists of: archives, packages, an image, bills of materials, a Homebrew formula and checksums.
//
//	release -version v1.2.3|snapshot [-root DIR] [-out DIR] [-platforms linux/amd64,...]
//	release push IMAGE.tar REFERENCE...
//
// The same commit and the same Go release make the same bytes, whoever runs it and wherever. SOURCE_DATE_EPOCH and COMMIT say
// what the commit is where git cannot; nothing is asked of the network but modules that are missing. push puts the image into
// registries, with the credentials that docker login has left, and prints its digest.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const everyPlatform = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "push" {
		return push(args[1:])
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "v1.2.3, or snapshot")
	root := flags.String("root", "../..", "the folder of the product")
	out := flags.String("out", "dist", "where everything goes, below -root; what is there is removed")
	platforms := flags.String("platforms", "", "as in linux/amd64,darwin/arm64; all: "+everyPlatform)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *platforms == "" {
		*platforms = everyPlatform
	}
	r := &release{root: *root, out: *out}
	if !filepath.IsAbs(r.out) {
		r.out = filepath.Join(r.root, r.out)
	}
	if err := r.identify(*version); err != nil {
		return err
	}
	return r.make(strings.Split(*platforms, ","))
}

// release is what is made, and of what.
type release struct {
	root, out string
	version   string // with its v
	commit    string
	date      time.Time // of the commit
	notes     string    // the changes; none of a snapshot
}

// A version that every kind of package can have, in the same order.
var versions = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(alpha|beta|rc)[0-9]+)?$`)

// identify finds out version, commit and date.
func (r *release) identify(version string) error {
	snapshot := version == "snapshot"
	if !snapshot && !versions.MatchString(version) {
		return fmt.Errorf("%q is no version: make release VERSION=v1.2.3 (or v1.2.3-rc1), or SNAPSHOT=1", version)
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	r.commit = os.Getenv("COMMIT")
	if epoch == "" || r.commit == "" {
		said, err := r.git("log", "-1", "--format=%H %ct")
		if err != nil {
			return fmt.Errorf("which commit is it: %w; or set SOURCE_DATE_EPOCH and COMMIT", err)
		}
		r.commit, epoch, _ = strings.Cut(said, " ")
		changed, err := r.git("status", "--porcelain")
		if err != nil {
			return err
		}
		if changed != "" && !snapshot {
			return errors.New("the work tree has changes: commit them, or make release SNAPSHOT=1")
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	r.version = version
	if snapshot {
		r.version = "v0.0.0-git" + r.date.Format("20060102150405") // older than every release, for every package manager
		return nil
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	r.notes, err = changesOf(string(changelog), r.version)
	return err
}

func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.root}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// changesOf returns the section of a version.
func changesOf(changelog, version string) (string, error) {
	_, section, found := strings.Cut(changelog, "\n## ["+strings.TrimPrefix(version, "v")+"]")
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section ## [%s]", strings.TrimPrefix(version, "v"))
	}
	_, section, _ = strings.Cut(section, "\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.TrimSpace(section) + "\n", nil
}

// number is the version as packages have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// make makes everything.
func (r *release) make(platforms []string) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()

	var builds []*build
	for _, platform := range platforms {
		b, err := r.build(platform, scratch)
		if err != nil {
			return err
		}
		builds = append(builds, b)
	}
	pages, err := r.pages(scratch)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return r.archives(builds, pages) },
		func() error { return r.packages(builds, pages, scratch) },
		func() error { return r.image(builds) },
		func() error { return r.materials(builds) },
		func() error { return r.formula(builds) },
		func() error {
			if r.notes == "" {
				return nil
			}
			return r.write("CHANGES.md", r.linked([]file{{path: "CHANGES.md", content: []byte(r.notes)}})[0].content)
		},
		r.checksums,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file of the release.
func (r *release) write(name string, content []byte) error {
	path := filepath.Join(r.out, name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // whatever the umask
}
