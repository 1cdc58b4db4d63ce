package crontab

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leaderrun/leaderrun/internal/account"
)

// Host is what tells the user of a system crontab from a program.
type Host struct {
	Path      string // PATH, for crontabs that set none
	IsUser    func(name string) bool
	IsProgram func(name, path string) bool
}

// ThisHost asks this one.
func ThisHost() Host {
	users := map[string]bool{} // the lines of a file are many
	return Host{
		Path: os.Getenv("PATH"),
		IsUser: func(name string) bool {
			known, asked := users[name]
			if !asked {
				_, err := account.Lookup(name)
				known = err == nil
				users[name] = known
			}
			return known
		},
		IsProgram: func(name, path string) bool {
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

var isAccount = pattern(`^[a-z_][-a-z0-9_.]*$`)

// IsAccount says whether a word can be the name of a user: another one may be a secret, as in PASSWORD=….
func IsAccount(word string) bool { return isAccount().MatchString(word) }

// UserColumn says why the first word of a user's command looks like the user of a system crontab; "": it does not. path is the PATH that
// the crontab sets. sure is false where the word may be the command as well.
func (h *Host) UserColumn(command, path string) (why string, sure bool) {
	word, rest := CutWord(command)
	switch {
	case rest == "" || rest[0] == '-' || !IsAccount(word) || !h.IsUser(word):
		return "", false
	case h.IsProgram(word, cmp.Or(path, h.Path)):
		return fmt.Sprintf("the sixth word, %s, is taken for the command, and is also a user of this host", word), false
	}
	return fmt.Sprintf("the sixth word, %s, is a user of this host", word), true
}
