package main

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the image: a number, so that Kubernetes sees that it is not root.
const nobody = 65532

// image writes one image for all builds for Linux, as the tar of an OCI layout.
func (r *release) image(builds []*build) error {
	ground, err := r.ground()
	if err != nil {
		return err
	}
	notes := map[string]string{
		"org.opencontainers.image.title":    "leaderrun",
		"org.opencontainers.image.source":   "https://github.com/leaderrun/leaderrun",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.date.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	index, _ = mutate.Annotations(index, notes).(v1.ImageIndex)
	some := false
	for _, b := range builds {
		if b.os != "linux" {
			continue
		}
		some = true
		image, err := r.imageOf(b, ground, notes)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
	}
	if !some {
		return nil
	}
	dir, err := os.MkdirTemp("", "layout")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.number()})); err != nil {
		return err
	}
	files, err := filesOf(os.DirFS(dir), "")
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := writeTar(&archive, r.date, files); err != nil {
		return err
	}
	return r.write("leaderrun_"+r.number()+"_image.tar", archive.Bytes())
}

func (r *release) imageOf(b *build, ground v1.Layer, notes map[string]string) (v1.Image, error) {
	program, err := r.layer([]file{{path: "usr/bin/leaderrun", mode: 0o755, content: b.program}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.date}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: ground, History: v1.History{Created: created, CreatedBy: "certificates, time zones, user"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "leaderrun " + r.version}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.os, b.arch, created
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%[1]d", nobody), Entrypoint: []string{"/usr/bin/leaderrun"}, WorkingDir: "/home/leaderrun",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/leaderrun"}, Labels: notes,
	}
	return mutate.ConfigFile(image, config)
}

func (r *release) layer(files []file) (v1.Layer, error) {
	var content bytes.Buffer
	if err := writeTar(&content, r.date, files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9), tarball.WithCompressedCaching)
}

// ground is what is below the program: certificates and time zones of fixed versions, a user, and where he may write.
func (r *release) ground() (v1.Layer, error) {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say what the root is good for
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	user := fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\nleaderrun:x:%d:%[1]d:leaderrun:/home/leaderrun:/sbin/nologin\n", nobody)
	files := []file{
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates.Bytes()},
		{path: "etc/passwd", mode: 0o644, content: []byte(user)},
		{path: "etc/group", mode: 0o644, content: []byte(fmt.Sprintf("root:x:0:\nleaderrun:x:%d:\n", nobody))},
		{path: "home/leaderrun/", mode: 0o755, owner: nobody},
		{path: "tmp/", mode: 0o1777},
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	zones, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(goroot)), "lib/time/zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = zones.Close() }()
	all, err := filesOf(zones, "usr/share/zoneinfo/")
	if err != nil {
		return nil, err
	}
	return r.layer(append(files, all...))
}

// filesOf are the files of a folder, or of a zip, below another path.
func filesOf(root fs.FS, below string) (files []file, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		files = append(files, file{path: below + name, mode: 0o644, content: content})
		return err
	})
	return files, err
}

// push puts an image into registries, and prints what it is called by its digest.
func push(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: release push IMAGE.tar REFERENCE...")
	}
	dir, err := os.MkdirTemp("", "layout")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if out, err := exec.Command("tar", "-xf", args[0], "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", args[0], err, out)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s holds %d images", args[0], len(manifest.Manifests))
	}
	image, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	for _, reference := range args[1:] {
		to, err := name.ParseReference(reference)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(to, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
	}
	fmt.Println(manifest.Manifests[0].Digest)
	return nil
}
