package jobfile

import (
	"os"
	"path/filepath"

	"github.com/leaderrun/leaderrun/internal/account"
)

// host is what the reader of a crontab asks its host, to tell a user's name from a program.
type host struct {
	path      string // PATH
	isUser    func(name string) bool
	isProgram func(name, path string) bool
}

func thisHost() host {
	users := map[string]bool{} // the lines of a file are many
	return host{
		path: os.Getenv("PATH"),
		isUser: func(name string) bool {
			known, asked := users[name]
			if !asked {
				_, err := account.Lookup(name)
				known = err == nil
				users[name] = known
			}
			return known
		},
		isProgram: func(name, path string) bool {
			for _, dir := range filepath.SplitList(path) {
				info, err := os.Stat(filepath.Join(dir, name))
				if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					return true
				}
			}
			return false
		},
	}
}
