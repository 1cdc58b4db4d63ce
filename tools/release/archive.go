package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive, a package or an image, by its path there. One whose path ends with / is a folder.
type file struct {
	path    string
	mode    int64
	content []byte
	owner   int
	config  bool // people change it, and an upgrade keeps that
}

// writeTar writes files, and the folders above them, in the order of their names. Nothing is taken from this machine.
func writeTar(w io.Writer, date time.Time, files []file) error {
	all := map[string]file{}
	for _, f := range files {
		all[f.path] = f
		for dir := path.Dir(strings.TrimSuffix(f.path, "/")); dir != "."; dir = path.Dir(dir) {
			if _, known := all[dir+"/"]; !known {
				all[dir+"/"] = file{path: dir + "/", mode: 0o755}
			}
		}
	}
	for _, f := range files { // one that is given counts, not one that follows from what is below it
		all[f.path] = f
	}
	t := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: date, Format: tar.FormatPAX,
			Uid: f.owner, Gid: f.owner,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// archives writes a tar.gz for each platform.
func (r *release) archives(builds []*build, pages map[string][]byte) error {
	texts, err := r.texts("LICENSE", "README.md", "CHANGELOG.md")
	if err != nil {
		return err
	}
	for _, b := range builds {
		name := "leaderrun_" + r.number() + "_" + b.platform()
		files := []file{{path: name + "/leaderrun", mode: 0o755, content: b.program}}
		for page, content := range pages {
			files = append(files, file{path: name + "/" + page, mode: 0o644, content: content})
		}
		for _, f := range texts {
			f.path = name + "/" + f.path
			files = append(files, f)
		}
		var archive bytes.Buffer
		z, _ := gzip.NewWriterLevel(&archive, gzip.BestCompression)
		if err := writeTar(z, r.date, files); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := r.write(name+".tar.gz", archive.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// examples are the examples without what tests them.
func (r *release) examples() ([]file, error) {
	var files []file
	pages, _ := fs.Glob(os.DirFS(r.root), "examples/*.md")
	below, _ := fs.Glob(os.DirFS(r.root), "examples/*/*")
	for _, name := range slices.Concat(pages, below) {
		at := filepath.Join(r.root, name)
		info, err := os.Stat(at)
		if err != nil {
			return nil, err
		}
		if info.IsDir() || strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			continue
		}
		content, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		files = append(files, file{path: name, mode: mode, content: content})
	}
	return files, nil
}
