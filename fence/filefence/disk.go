package filefence

import (
	"fmt"
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

// syncDir returns when the names of an open directory are on the disk. Its error is never a *fence.SetupError, which says that
// nothing was written: unsure says what may be otherwise.
func (d disk) syncDir(dir *os.File, unsure error) error {
	if err := d.sync(dir); err != nil {
		return fmt.Errorf("%w: %w", unsure, err)
	}
	return nil
}
