package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a deb, an rpm and an apk for each build for Linux.
func (r *release) packages(builds []*build, pages map[string][]byte, scratch string) error {
	for _, b := range builds {
		if b.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm", "apk"} {
			if err := r.pack(format, b, pages, scratch); err != nil {
				return fmt.Errorf("the %s for %s: %w", format, b.arch, err)
			}
		}
	}
	return nil
}

func (r *release) pack(format string, b *build, pages map[string][]byte, scratch string) error {
	contents, err := r.installed(format, b, pages)
	if err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: "leaderrun", Arch: b.arch, Platform: "linux", Version: r.version, MTime: r.date,
		Section: "admin", Priority: "optional",
		Maintainer: "The leaderrun authors <leaderrun@users.noreply.github.com>",
		Homepage:   "https://github.com/leaderrun/leaderrun", License: "Apache-2.0",
		Description: "runs a command on at most one of many hosts at a time\n" +
			"leaderrun stands between cron and jobs that must not run twice: a lease in a store that the\n" +
			"hosts share (Redis, etcd, Consul, ZooKeeper, PostgreSQL, Kubernetes), and at most once per tick.",
		DisableGlobbing: true,
	}
	info.Umask = 0o022
	info.RPM.BuildHost, info.RPM.Group = "localhost", "System Environment/Base"
	if info.Contents, err = onDisk(contents, filepath.Join(scratch, format+"_"+b.arch)); err != nil {
		return err
	}
	if format == "apk" {
		info.Description, _, _ = strings.Cut(info.Description, "\n") // its .PKGINFO has one line for it
	} else { // no systemd on Alpine
		at := func(name string) string { return filepath.Join(r.root, "packaging/scripts", name) }
		info.Scripts = nfpm.Scripts{PostInstall: at("postinstall"), PreRemove: at("preremove"), PostRemove: at("postremove")}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	// Not what the format would call it: a ~ of a version would not outlive an upload.
	return r.write("leaderrun_"+r.number()+"_"+b.platform()+"."+format, out.Bytes())
}

// installed are the files of a package, by where they go.
func (r *release) installed(format string, b *build, pages map[string][]byte) ([]file, error) {
	var page bytes.Buffer
	z, _ := gzip.NewWriterLevel(&page, gzip.BestCompression)
	if _, err := z.Write(pages["leaderrun.1"]); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	zsh := "/usr/share/zsh/site-functions/_leaderrun"
	if format == "deb" {
		zsh = "/usr/share/zsh/vendor-completions/_leaderrun"
	}
	all := []file{
		{path: "/usr/bin/leaderrun", mode: 0o755, content: b.program},
		{path: "/usr/share/man/man1/leaderrun.1.gz", mode: 0o644, content: page.Bytes()},
		{path: "/usr/share/bash-completion/completions/leaderrun", mode: 0o644, content: pages["completions/leaderrun.bash"]},
		{path: zsh, mode: 0o644, content: pages["completions/_leaderrun"]},
		{path: "/usr/share/fish/vendor_completions.d/leaderrun.fish", mode: 0o644, content: pages["completions/leaderrun.fish"]},
		{path: "/etc/leaderrun/", mode: 0o755},
	}
	from := map[string]string{
		"packaging/leaderrun.yaml": "/etc/leaderrun.yaml",
		"LICENSE":                  "/usr/share/doc/leaderrun/copyright",
	}
	if format != "apk" {
		from["packaging/leaderrun.service"] = "/usr/lib/systemd/system/leaderrun.service"
		from["packaging/leaderrun@.service"] = "/usr/lib/systemd/system/leaderrun@.service"
		from["packaging/sysusers.conf"] = "/usr/lib/sysusers.d/leaderrun.conf"
		from["packaging/tmpfiles.conf"] = "/usr/lib/tmpfiles.d/leaderrun.conf"
		from["packaging/give-back"] = "/usr/lib/leaderrun/give-back"
	}
	for source, path := range from {
		content, err := os.ReadFile(filepath.Join(r.root, source))
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: path, mode: 0o644, content: content, config: path == "/etc/leaderrun.yaml"})
	}
	texts, err := r.texts("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	for _, f := range texts {
		f.path = "/usr/share/doc/leaderrun/" + f.path
		all = append(all, f)
	}
	return all, nil
}

// onDisk writes files into a folder, where nfpm takes them from.
func onDisk(all []file, dir string) (files.Contents, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var contents files.Contents
	for i, f := range all {
		c := &files.Content{Destination: f.path, FileInfo: &files.ContentFileInfo{Mode: os.FileMode(f.mode), Owner: "root", Group: "root"}}
		switch {
		case strings.HasSuffix(f.path, "/"):
			c.Type = files.TypeDir
		case f.config:
			c.Type = files.TypeConfigNoReplace
		}
		if c.Type != files.TypeDir {
			c.Source = filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(c.Source, f.content, 0o644); err != nil {
				return nil, err
			}
		}
		contents = append(contents, c)
	}
	return contents, nil
}
