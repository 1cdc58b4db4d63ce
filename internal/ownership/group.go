package ownership

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// ownGroup says whether a group has one user only: where each has one of their own, the umask may let it write. What cannot be
// read, or is not in the files of this host, is no such group.
func ownGroup(uid, gid uint32) bool {
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return false
	}
	groups, err := os.ReadFile("/etc/group")
	return err == nil && isOwnGroup(string(users), string(groups), uid, gid)
}

// isOwnGroup is ownGroup by the text of passwd(5) and group(5): the group is called as the user, who has it as the first one, and
// nobody else has it.
func isOwnGroup(users, groups string, uid, gid uint32) bool {
	owner, group := strconv.FormatUint(uint64(uid), 10), strconv.FormatUint(uint64(gid), 10)
	name := ""
	for line := range strings.Lines(groups) { // name:password:gid:user,user
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[2] != group {
			continue
		}
		others := func(member string) bool { return member != "" && member != f[0] }
		if name != "" || slices.ContainsFunc(strings.Split(f[3], ","), others) {
			return false
		}
		name = f[0]
	}
	found := false
	for line := range strings.Lines(users) { // name:password:uid:gid:…
		f := strings.Split(line, ":")
		if len(f) < 4 || f[3] != group {
			continue
		}
		if f[0] != name || f[2] != owner {
			return false
		}
		found = true
	}
	return found
}
