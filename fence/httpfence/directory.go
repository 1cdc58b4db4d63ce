package httpfence

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// maxOpen is how many resources a Directory remembers the files of.
const maxOpen = 10_000

// Directory keeps the highest tokens in files, two small ones for each resource that was ever raised; nothing removes them.
// A power cut does not lower a token.
type Directory struct {
	path string

	mu   sync.Mutex
	open map[string]*keptToken // what is missing here is opened again
}

// keptToken is the token of one resource.
type keptToken struct {
	file *filefence.Token
	kept int64 // that is on the disk for sure
}

var _ Keeper = (*Directory)(nil)

// OpenDirectory makes the directory where it is missing, for its owner alone, and sees whether it can be written, and by nobody else: who
// removes a token lets in runs that were overtaken. The error is a *fence.SetupError.
func OpenDirectory(path string) (*Directory, error) {
	err := makeDirectory(filepath.Clean(path))
	if err == nil {
		err = ours(path)
	}
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(path, ".probe-")
	}
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		hint := cmp.Or(ownership.Remedy(err), "name a directory on a local disk that can be written")
		return nil, remedy.Misconfigured(hint, "the highest tokens cannot be kept: %w", err)
	}
	return &Directory{path: path, open: map[string]*keptToken{}}, nil
}

// ours says who else can change what is in a directory. In one such as /tmp others can make the files first.
func ours(path string) error {
	whole, err := filepath.Abs(path)
	if err == nil {
		err = ownership.CheckFolder(whole)
	}
	if info, failed := os.Stat(path); err == nil && (failed != nil || info.Mode()&fs.ModeSticky != 0) {
		err = errors.Join(failed, errors.New(path+" is one in which all may make files"))
	}
	return err
}

// makeDirectory makes what is missing of a path, and returns when its names are on the disk: a power cut that takes the directory
// away takes the tokens with it.
func makeDirectory(path string) error {
	parent := filepath.Dir(path)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err = makeDirectory(parent); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		_ = ownership.SyncFolder(parent) // whoever made it may have been killed before this; not every parent may be read
		return nil
	}
	if err != nil {
		return err
	}
	return ownership.SyncFolder(parent)
}

// Own makes this process the only one that owns a resource here, until release is called or the process ends. The error is a
// *fence.SetupError; it says so where another process owns it.
func (d *Directory) Own(resource string) (release func(), err error) {
	file, _, err := d.token(resource)
	if err != nil {
		return nil, err
	}
	return file.Own()
}

// Load returns the highest token of a resource, 0 for none.
func (d *Directory) Load(ctx context.Context, resource string) (int64, error) {
	file, _, err := d.token(resource)
	if err != nil {
		return 0, err
	}
	return file.Load(ctx)
}

// Raise is that of Keeper. A token that is on the disk already costs a look at the file, which another process may have raised.
func (d *Directory) Raise(ctx context.Context, resource string, token int64) (int64, error) {
	file, kept, err := d.token(resource)
	if err != nil {
		return 0, err
	}
	if token == kept {
		if highest, err := file.Load(ctx); err == nil && highest == token {
			return token, nil
		}
	}
	err = file.Raise(ctx, resource, token)
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		return stale.Highest, nil
	}
	if err != nil {
		return 0, err
	}
	d.remember(resource, token)
	return token, nil
}

// token returns the file of a resource, and which token is on the disk for sure.
func (d *Directory) token(resource string) (file *filefence.Token, kept int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.open[resource]; t != nil {
		return t.file, t.kept, nil
	}
	file, err = filefence.OpenToken(d.path, resource)
	if err != nil {
		return nil, 0, err
	}
	if len(d.open) >= maxOpen {
		clear(d.open)
	}
	d.open[resource] = &keptToken{file: file}
	return file, 0, nil
}

func (d *Directory) remember(resource string, token int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.open[resource]; t != nil {
		t.kept = max(t.kept, token)
	}
}
