package ownership

import (
	"encoding/binary"
	"errors"
)

// acl returns the ACL of a file or folder as the kernel gives it, nil where there is none.
type acl func() ([]byte, error)

// The form is that of linux/posix_acl_xattr.h: a version of four bytes, then for each entry a tag and a mode of two bytes and a
// number of four, all little-endian. What the tags mean is in acl(5).
const (
	aclVersion  = 2
	aclHeader   = 4
	aclEntry    = 8
	aclUser     = 0x02
	aclOwners   = 0x04 // the owner's group
	aclGroup    = 0x08
	aclWrites   = 2
	aclMostSize = 64 << 10 // XATTR_SIZE_MAX of linux/limits.h
)

// writers returns whom an ACL lets write, beside the owner and all, if its mask does.
func writers(text []byte, ownersGroup uint32) (users, groups []uint32, err error) {
	if len(text)%aclEntry != aclHeader || binary.LittleEndian.Uint32(text) != aclVersion {
		return nil, nil, errors.New("an ACL of another form")
	}
	for e := text[aclHeader:]; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e[2:])&aclWrites == 0 {
			continue
		}
		switch id := binary.LittleEndian.Uint32(e[4:]); binary.LittleEndian.Uint16(e) {
		case aclUser:
			users = append(users, id)
		case aclOwners:
			groups = append(groups, ownersGroup)
		case aclGroup:
			groups = append(groups, id)
		}
	}
	return users, groups, nil
}
