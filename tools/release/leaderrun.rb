class Leaderrun < Formula
  desc "Run a command on at most one of many hosts at a time"
  homepage "https://github.com/leaderrun/leaderrun"
  version "{{version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/leaderrun/leaderrun/releases/download/{{tag}}/{{archive "darwin/arm64"}}"
      sha256 "{{sum "darwin/arm64"}}"
    end
    on_intel do
      url "https://github.com/leaderrun/leaderrun/releases/download/{{tag}}/{{archive "darwin/amd64"}}"
      sha256 "{{sum "darwin/amd64"}}"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/leaderrun/leaderrun/releases/download/{{tag}}/{{archive "linux/arm64"}}"
      sha256 "{{sum "linux/arm64"}}"
    end
    on_intel do
      url "https://github.com/leaderrun/leaderrun/releases/download/{{tag}}/{{archive "linux/amd64"}}"
      sha256 "{{sum "linux/amd64"}}"
    end
  end

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
