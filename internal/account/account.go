// Package account looks up the user that a command is to run as, in the host's own files and nowhere else. Package os/user believes the
// environment if the files do not name the user of this process, and then a name in USER would get root's number. Users that only a
// directory service knows, such as LDAP, are unknown here.
package account

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The files of passwd(5) and group(5).
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// Account is a user of this host.
type Account struct {
	Name     string
	UID, GID uint32
	Groups   []uint32 // those of group(5) that name the user, and GID; sorted, each once
	Home     string   // an absolute path; "/" where the line has none
}

// ErrUnknown says that a name has no line in /etc/passwd.
var ErrUnknown = errors.New("has no line in " + passwdFile)

// Lookup reads the files anew. The error says what is wrong with the name: ErrUnknown, or a line or file that cannot be read.
func Lookup(name string) (Account, error) {
	users, err := os.ReadFile(passwdFile)
	if err != nil {
		return Account{}, err
	}
	groups, err := os.ReadFile(groupFile)
	if err != nil {
		return Account{}, err
	}
	return lookup(string(users), string(groups), name)
}

// lookup is Lookup in the texts of the files. A line that is not as it should be is an error: no part of it is guessed, for what is
// missing would be 0, and that is root.
func lookup(users, groups, name string) (Account, error) {
	if name == "" || strings.ContainsAny(name, ":\n") {
		return Account{}, ErrUnknown
	}
	for line := range strings.Lines(users) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":") // name:password:uid:gid:comment:home:shell
		if fields[0] != name {
			continue
		}
		const all = 7
		if len(fields) != all {
			return Account{}, fmt.Errorf("has a line in %s that has not %d fields", passwdFile, all)
		}
		uid, err := id(fields[2])
		if err != nil {
			return Account{}, err
		}
		gid, err := id(fields[3])
		if err != nil {
			return Account{}, err
		}
		a := Account{Name: name, UID: uid, GID: gid, Groups: groupsOf(groups, name, gid), Home: "/"}
		if path.IsAbs(fields[5]) {
			a.Home = fields[5]
		}
		return a, nil
	}
	return Account{}, ErrUnknown
}

// id reads the number of a user or group. The highest one means nobody at all to setresuid(2): it changes nothing.
func id(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("has a line in %s with the number %q", passwdFile, text)
	}
	return uint32(n), nil
}

// groupsOf is what initgroups(3) makes a user a member of. A line that is no group of anybody is left out: to have fewer groups is safe.
func groupsOf(groups, name string, gid uint32) []uint32 {
	all := []uint32{gid}
	for line := range strings.Lines(groups) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":") // name:password:gid:user,user
		if len(fields) < 4 || !slices.Contains(strings.Split(fields[3], ","), name) {
			continue
		}
		if n, err := id(fields[2]); err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
