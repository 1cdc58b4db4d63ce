package filefence

import (
	"errors"
	"os"
)

// disk is what a fence does that has an order: a file's content is on the disk before it gets its name, and the name is
// before anybody hears of it. Tests stand in between.
type disk struct {
	step   func(place string) // called wherever a pause may come
	sync   func(*os.File) error
	rename func(from, to string) error
}

func realDisk() disk {
	return disk{step: func(string) {}, sync: (*os.File).Sync, rename: os.Rename}
}

// syncDir returns when the names of a directory are on the disk.
func (d disk) syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return unusable(err)
	}
	return unusable(errors.Join(d.sync(dir), dir.Close()))
}
