package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// formula writes what Homebrew installs from: the archives, by their checksums. Without all four there is none.
func (r *release) formula(builds []*build) error {
	sources := map[string]string{}
	for _, b := range builds {
		name := "leaderrun_" + r.number() + "_" + b.platform() + ".tar.gz"
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		sources[b.os+"/"+b.arch] = fmt.Sprintf("      url \"https://github.com/leaderrun/leaderrun/releases/download/%s/%s\"\n      sha256 \"%s\"\n",
			r.version, name, digest(content))
	}
	var b strings.Builder
	b.WriteString("class Leaderrun < Formula\n" +
		"  desc \"Run a command on at most one of many hosts at a time\"\n" +
		"  homepage \"https://github.com/leaderrun/leaderrun\"\n" +
		"  version \"" + r.number() + "\"\n" +
		"  license \"Apache-2.0\"\n")
	for _, system := range [][2]string{{"macos", "darwin"}, {"linux", "linux"}} {
		b.WriteString("\n  on_" + system[0] + " do\n")
		for _, arch := range [][2]string{{"arm", "arm64"}, {"intel", "amd64"}} {
			source, ok := sources[system[1]+"/"+arch[1]]
			if !ok {
				return nil
			}
			b.WriteString("    on_" + arch[0] + " do\n" + source + "    end\n")
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "leaderrun"
    man1.install "leaderrun.1"
    bash_completion.install "completions/leaderrun.bash" => "leaderrun"
    zsh_completion.install "completions/_leaderrun"
    fish_completion.install "completions/leaderrun.fish"
    doc.install "README.md", "CHANGELOG.md", "examples"
  end

  test do
    assert_match "v#{version}", shell_output("#{bin}/leaderrun version")
  end
end
`)
	return r.write("leaderrun.rb", []byte(b.String()))
}
