package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // the format has no other
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Debian has no apk: what Alpine's checks before and while it installs a package that nobody has signed. The format is that of
// https://wiki.alpinelinux.org/wiki/Apk_spec.
func TestAPK(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(artefact(t, "*.apk"))
	if err != nil {
		t.Fatal(err)
	}
	streams := members(t, text)
	if len(streams) != 2 {
		t.Fatalf("%d gzip streams, not one of control data and one of files", len(streams))
	}
	control, data := unpacked(t, streams[0]), unpacked(t, streams[1])
	if whole := unpacked(t, text); len(whole) != len(control)+len(data) {
		t.Errorf("read as one tar it has %d files, not %d and %d", len(whole), len(control), len(data))
	}

	about := map[string]string{}
	for _, line := range lines(control[0].content) {
		key, value, ok := strings.Cut(line, " = ")
		if about[key] != "" || !ok && !strings.HasPrefix(line, "#") {
			t.Errorf(".PKGINFO has the line %q", line)
		}
		about[key] = value
	}
	sum := sha256.Sum256(streams[1])
	for key, want := range map[string]string{
		"pkgname": "leaderrun", "pkgver": version, "license": "Apache-2.0", "datahash": hex.EncodeToString(sum[:]),
		"arch": map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH],
	} {
		if about[key] != want {
			t.Errorf("%s of .PKGINFO is %q, not %q", key, about[key], want)
		}
	}
	if names := namesOf(control); !slices.Equal(names, []string{".PKGINFO"}) {
		t.Errorf("control data has %q: nothing is started on Alpine, and there is no user to make", names)
	}
	if n, err := strconv.Atoi(about["size"]); err != nil || n < 10_000_000 {
		t.Errorf("size: %q", about["size"])
	}

	checkEntries(t, data)
	for name, mode := range map[string]int64{
		"usr/bin/leaderrun": 0o755, "etc/leaderrun.yaml": 0o644, "usr/share/man/man1/leaderrun.1.gz": 0o644,
		"usr/share/zsh/site-functions/_leaderrun": 0o644,
	} {
		if i := slices.Index(namesOf(data), name); i < 0 || data[i].header.Mode != mode {
			t.Errorf("%s is missing, or has another mode than %o", name, mode)
		}
	}
}

// checkEntries looks at what apk looks at of each file: its checksum, the folder that came before it, and that its name is below /.
func checkEntries(t *testing.T, entries []entry) {
	t.Helper()
	folders := map[string]bool{".": true}
	for _, e := range entries {
		name := strings.TrimSuffix(e.header.Name, "/")
		if path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, ".") {
			t.Errorf("%q is no name below /", e.header.Name)
		}
		if !folders[path.Dir(name)] {
			t.Errorf("%s comes before its folder: apk leaves it out", name)
		}
		if strings.Contains(name, "lib/systemd") || strings.Contains(name, "sysusers") {
			t.Errorf("Alpine has no use for %s", name)
		}
		if e.header.Uid != 0 || e.header.Gid != 0 || e.header.Uname != "root" || e.header.Gname != "root" {
			t.Errorf("%s is not root's: %+v", name, e.header)
		}
		switch e.header.Typeflag {
		case tar.TypeDir:
			folders[name] = true
		case tar.TypeReg:
			sum := sha1.Sum([]byte(e.content)) //nolint:gosec // as above
			if got := e.header.PAXRecords["APK-TOOLS.checksum.SHA1"]; got != hex.EncodeToString(sum[:]) {
				t.Errorf("%s has the checksum %q", name, got)
			}
		default:
			t.Errorf("%s is of type %q", name, e.header.Typeflag)
		}
	}
}

// entry is one file of a tar.
type entry struct {
	header  *tar.Header
	content string
}

func namesOf(entries []entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.header.Name)
	}
	return names
}

// members returns the gzip streams that stand one behind the other in a file, each as it is there.
func members(t *testing.T, text []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for r := bytes.NewReader(text); r.Len() > 0; {
		began := len(text) - r.Len()
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		if _, err := io.Copy(io.Discard, z); err != nil { //nolint:gosec // we have made it
			t.Fatal(err)
		}
		all = append(all, text[began:len(text)-r.Len()])
	}
	return all
}

// unpacked returns the files of a compressed tar. The one of control data has no end: that is what makes one tar of both.
func unpacked(t *testing.T, stream []byte) []entry {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var all []entry
	for archive := tar.NewReader(z); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", header.Name, err))
		}
		all = append(all, entry{header, string(content)})
	}
}
