package importer

import (
	"context"
	"crypto/md5" //nolint:gosec // dpkg's
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Packaged returns the paths of the sources in a folder cron.d of this host that are as their package brought them. What such a file
// does is about the package's files on this host. /etc/crontab is everybody's.
func Packaged(sources []Source) map[string]bool {
	found := map[string]bool{}
	var digests map[string][]string
	for _, s := range sources {
		path, err := filepath.Abs(s.Path)
		if err != nil || filepath.Dir(path) != "/etc/cron.d" {
			continue
		}
		if digests == nil {
			digests = dpkgDigests(dpkgStatus)
		}
		known := slices.Concat(digests[path], rpmDigests(path))
		old, now := md5.Sum(s.Text), sha256.Sum256(s.Text) //nolint:gosec // as above
		found[s.Path] = slices.Contains(known, hex.EncodeToString(old[:])) || slices.Contains(known, hex.EncodeToString(now[:]))
	}
	return found
}

const dpkgStatus = "/var/lib/dpkg/status"

// dpkgDigests are those of the configuration files of Debian's packages, of installed ones: lines " PATH DIGEST" below Conffiles:.
func dpkgDigests(status string) map[string][]string {
	digests := map[string][]string{}
	text, _ := os.ReadFile(status) // where there is none, there are no packages of Debian
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); strings.HasPrefix(line, " /") && len(words) == 2 { // a third word says that it is obsolete
			digests[words[0]] = append(digests[words[0]], words[1])
		}
	}
	return digests
}

// rpmDigests are those of a file in the packages of rpm that have it.
func rpmDigests(path string) (digests []string) {
	out, err := exec.CommandContext(context.Background(), "rpm", "-qf", "--queryformat", `[%{FILENAMES} %{FILEDIGESTS}\n]`, path).Output() //nolint:gosec // a path of cron.d
	if err != nil {
		return nil // there is no rpm, or no package has the file
	}
	for line := range strings.Lines(string(out)) {
		if digest, ok := strings.CutPrefix(strings.TrimSpace(line), path+" "); ok {
			digests = append(digests, digest)
		}
	}
	return digests
}
