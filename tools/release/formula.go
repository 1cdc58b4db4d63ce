package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed leaderrun.rb
var formulaText string

// formula writes what Homebrew installs from: the archives, by their checksums. Without all four there is none.
func (r *release) formula(builds []*build) error {
	archives := map[string]string{}
	for _, b := range builds {
		archives[b.os+"/"+b.arch] = "leaderrun_" + r.number() + "_" + b.platform() + ".tar.gz"
	}
	if len(archives) < len(strings.Split(everyPlatform, ",")) {
		return nil
	}
	page, err := template.New("").Funcs(template.FuncMap{
		"version": r.number,
		"tag":     func() string { return r.version },
		"archive": func(platform string) string { return archives[platform] },
		"sum": func(platform string) (string, error) {
			content, err := os.ReadFile(filepath.Join(r.out, archives[platform]))
			return digest(content), err
		},
	}).Parse(formulaText)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Execute(&text, nil); err != nil {
		return err
	}
	return r.write("leaderrun.rb", text.Bytes())
}
