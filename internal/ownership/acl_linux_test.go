package ownership

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/test/servers"
)

// With an ACL the bits of the group say the most that those may do whom it names.
func TestACL(t *testing.T) {
	const owner, user, ownersGroup, group, mask, other = 1, aclUser, aclOwners, aclGroup, 0x10, 0x20
	type entry struct {
		tag, may uint16
		id       uint32
	}
	const w, r, none = 6, 4, 1<<32 - 1
	for _, c := range []struct {
		what    string
		entries []entry // after the owner's
		why     string
	}{
		{"another user writes", []entry{{user, w, nobody}, {ownersGroup, r, none}, {mask, w, none}, {other, r, none}}, "(mode 0664 and its ACL)"},
		{"another group writes", []entry{{ownersGroup, r, none}, {group, w, nobody}, {mask, w, none}, {other, r, none}}, "(mode 0664 and its ACL)"},
		{"the mask does not let them", []entry{{user, w, nobody}, {ownersGroup, r, none}, {mask, r, none}, {other, r, none}}, ""},
		{"another user reads, and the file's group would write", []entry{{user, r, nobody}, {ownersGroup, w, none}, {mask, w, none}, {other, r, none}}, ""},
		{"this user writes", []entry{{user, w, uint32(os.Geteuid())}, {ownersGroup, r, none}, {mask, w, none}, {other, r, none}}, ""},
		{"root and its group write", []entry{{user, w, 0}, {ownersGroup, r, none}, {group, w, 0}, {mask, w, none}, {other, r, none}}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			if os.Geteuid() != 0 {
				servers.Lack(t, "root", "only root has files whose group is root's")
			}
			text := binary.LittleEndian.AppendUint32(nil, aclVersion)
			for _, e := range append([]entry{{owner, w, none}}, c.entries...) {
				text = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(text, e.tag), e.may)
				text = binary.LittleEndian.AppendUint32(text, e.id)
			}
			path := make0(t, 0o600)
			for _, path := range []string{path, filepath.Dir(path)} {
				if err := unix.Setxattr(path, aclName, text, 0); errors.Is(err, unix.ENOTSUP) {
					t.Skip("the file system of " + path + " has no ACLs")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := Read(path, 4)
			want(t, err, c.why)
			want(t, CheckFolder(filepath.Dir(path)), c.why)
		})
	}
	if _, _, err := writers(make([]byte, 20), 0); err == nil {
		t.Error("an ACL of version 0 is read")
	}
}
