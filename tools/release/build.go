package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// build is the program for one platform.
type build struct {
	os, arch string
	path     string
	program  []byte
}

func (b *build) platform() string { return b.os + "_" + b.arch }

// build builds the program for a platform. What of the environment could change it is set.
func (r *release) build(platform, scratch string) (*build, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("%q is no platform: it is written as in linux/amd64", platform)
	}
	b := &build{os: system, arch: arch, path: filepath.Join(scratch, "leaderrun_"+system+"_"+arch)}
	const variables = "github.com/leaderrun/leaderrun/internal/cli"
	link := fmt.Sprintf("-s -w -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s",
		variables, r.version, r.commit, r.date.Format("2006-01-02T15:04:05Z"))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "urfave_cli_no_docs", "-ldflags", link, "-o", b.path, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build for %s: %w", platform, err)
	}
	var err error
	b.program, err = os.ReadFile(b.path)
	return b, err
}

// pages are what the program says about itself, by what archives call it.
func (r *release) pages(scratch string) (map[string][]byte, error) {
	here, err := r.build(runtime.GOOS+"/"+runtime.GOARCH, scratch)
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	for name, args := range map[string][]string{
		"leaderrun.1":                {"man"},
		"completions/leaderrun.bash": {"completion", "bash"},
		"completions/_leaderrun":     {"completion", "zsh"},
		"completions/leaderrun.fish": {"completion", "fish"},
	} {
		var said, wrong bytes.Buffer
		cmd := exec.Command(here.path, args...)
		cmd.Stdout, cmd.Stderr = &said, &wrong
		cmd.Env = []string{"HOME=" + scratch}
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("leaderrun %s: %w: %s", strings.Join(args, " "), err, &wrong)
		}
		pages[name] = said.Bytes()
	}
	return pages, nil
}

// checksums writes SHA256SUMS, as sha256sum(1) checks it.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, digest(content)+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return r.write("SHA256SUMS", []byte(strings.Join(lines, "")))
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
