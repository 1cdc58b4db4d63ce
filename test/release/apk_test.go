package release

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Debian has no apk: what the package says of itself to Alpine, and whose the files are that it brings.
func TestAPK(t *testing.T) {
	t.Parallel()
	apk := artefact(t, "*.apk")
	about := run(t, "tar", "-xOzf", apk, ".PKGINFO")
	for key, want := range map[string]string{
		"pkgname": "leaderrun", "pkgver": version, "license": "Apache-2.0",
		"arch": map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH],
	} {
		if !strings.Contains(about, key+" = "+want+"\n") {
			t.Errorf("%s of .PKGINFO is not %q:\n%s", key, want, about)
		}
	}
	files := run(t, "tar", "--numeric-owner", "-tvzf", apk)
	for name, mode := range map[string]string{
		"usr/bin/leaderrun": "-rwxr-xr-x", "etc/leaderrun.yaml": "-rw-r--r--", "usr/share/man/man1/leaderrun.1.gz": "-rw-r--r--",
		"usr/share/zsh/site-functions/_leaderrun": "-rw-r--r--",
	} {
		if !regexp.MustCompile(`(?m)^` + mode + ` 0/0 .* ` + name + `$`).MatchString(files) {
			t.Errorf("%s is missing, is not root's, or has another mode than %s", name, mode)
		}
	}
	if useless := regexp.MustCompile(`.*(lib/systemd|sysusers|tmpfiles).*`).FindAllString(files, -1); useless != nil {
		t.Errorf("Alpine has no use for %q", useless)
	}
}
