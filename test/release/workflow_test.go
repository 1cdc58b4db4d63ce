package release

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A tag of somebody else's can be moved, a commit cannot; the comment says which version it is.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	uses, pinned := regexp.MustCompile(`(?m)^.*\buses:.*$`), regexp.MustCompile(`uses: [\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	image, fixed := regexp.MustCompile(`(?m)^\s*image:.*$`), regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range uses.FindAllString(string(text), -1) {
			if !pinned.MatchString(line) {
				t.Errorf("%s: not pinned by its commit: %s", file, line)
			}
		}
		for _, line := range image.FindAllString(string(text), -1) {
			if !fixed.MatchString(line) {
				t.Errorf("%s: not pinned by its digest: %s", file, line)
			}
		}
	}
}
