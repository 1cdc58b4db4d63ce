package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// The parts of an image that are looked at. https://github.com/opencontainers/image-spec
type (
	descriptor struct {
		MediaType, Digest string
		Platform          struct{ Architecture, OS string }
		Annotations       map[string]string
	}
	manifest struct {
		Manifests, Layers []descriptor
		Config            descriptor
	}
	imageConfig struct {
		Created string
		Config  struct {
			User, WorkingDir string
			Env, Entrypoint  []string
		}
	}
)

// The image runs as nobody in particular, without a network, a shell or anything else of a system.
func TestImage(t *testing.T) {
	t.Parallel()
	image := artefact(t, "leaderrun_"+version+"_image.tar")
	servers.RequireRoot(t, "dpkg", "roots of their own")
	layout := t.TempDir()
	run(t, "tar", "-C", layout, "-xf", image)
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	}
	parse := func(path string, v any) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatal(err)
		}
	}
	var outer, index, one manifest
	parse(filepath.Join(layout, "index.json"), &outer)
	if len(outer.Manifests) != 1 || outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != version {
		t.Fatalf("the index is %v", outer)
	}
	parse(blob(outer.Manifests[0]), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS != "linux" || index.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("the images are %v", index)
	}
	parse(blob(index.Manifests[0]), &one)
	var config imageConfig
	parse(blob(one.Config), &config)
	if config.Config.User != "65532:65532" || fmt.Sprint(config.Config.Entrypoint) != "[/usr/bin/leaderrun]" || config.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("the configuration is %+v", config)
	}
	root := servers.Dir(t)
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // as / is
		t.Fatal(err)
	}
	for _, layer := range one.Layers {
		if layer.MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" {
			t.Errorf("a layer is %s", layer.MediaType)
		}
		run(t, "tar", "-C", root, "--numeric-owner", "-xpzf", blob(layer))
	}
	if got := run(t, "find", root, "-perm", "/111", "-type", "f", "-printf", "%P\n"); got != "usr/bin/leaderrun\n" {
		t.Errorf("programs: %q", got)
	}
	certificates, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if n := strings.Count(string(certificates), "BEGIN CERTIFICATE"); err != nil || n < 50 {
		t.Errorf("%d certificates: %v", n, err)
	}

	// What a runtime adds is /proc.
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil { //nolint:gosec // as /proc is
		t.Fatal(err)
	}
	contained := func(args ...string) string {
		t.Helper()
		const enter = `mount -t proc proc "$0/proc"; cd /; exec /usr/sbin/chroot --userspec=65532:65532 "$0" /usr/bin/leaderrun "$@"`
		words := append([]string{"unshare", "--net", "--mount", "--pid", "--fork", "sh", "-ec", enter, root}, args...)
		return run(t, append(slices.Concat([]string{"env", "-i"}, config.Config.Env), words...)...)
	}
	if got := contained("version"); !strings.HasPrefix(got, "leaderrun v"+version+" ") {
		t.Errorf("it says %q", got)
	}
	lease := []string{"run", "--backend", "file:///home/leaderrun/leases", "--tick", "2026-01-05T02:00:00Z", "job", "--", "/usr/bin/leaderrun", "version"}
	if got := contained(lease...); !strings.HasPrefix(got, "leaderrun v"+version+" ") {
		t.Errorf("the first run says %q", got)
	}
	if got := contained(lease...); got != "" {
		t.Errorf("the second run of a tick says %q", got)
	}
	if got := contained("next", "--timezone", "Europe/Berlin", "--count", "1", "0 2 * * *"); got == "" {
		t.Error("no time zone")
	}
}
