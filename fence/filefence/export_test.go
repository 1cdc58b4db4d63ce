package filefence

import "os"

// Step sets what is called wherever a pause may come.
func (f *File) Step(step func(place string)) { f.token.step = step }

// Disk puts itself between a file and the disk.
func (f *File) Disk(sync func(*os.File) error, rename func(from, to string) error) {
	f.token.disk = disk{step: f.token.step, sync: sync, rename: rename}
}

// State and Lock are the paths of the fence's files.
func (f *File) State() string { return f.token.state }
func (f *File) Lock() string  { return f.token.lock }

var Judge = judge
