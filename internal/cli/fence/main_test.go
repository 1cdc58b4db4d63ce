package fence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Tests start the program by its name. Their own binary is not it: one that took itself for leaderrun would run all tests again, and again.
func TestMain(m *testing.M) {
	os.Exit(servers.RunWithProgram(m, func(path string) {
		if err := os.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH")); err != nil {
			panic(err)
		}
	}))
}
