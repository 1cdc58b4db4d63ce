package filefence

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// openMode is that of lock and state, less the umask: who may write other files of the directory may use the fence.
const openMode = 0o666

// Token is the highest token that a resource has seen, kept in a directory for as long as that lasts: after Raise a power
// cut does not lower it. For a resource that is not a file itself.
//
// It may be used by several goroutines and processes of one host at once.
type Token struct {
	paths
	disk
	wait time.Duration // for the lock
}

// OpenToken returns the token of a resource by name, in a directory that exists. Two names never share a token. The error is
// a *fence.SetupError.
func OpenToken(dir, name string) (*Token, error) {
	if name == "" {
		return nil, remedy.Misconfigured("", "the resource has no name")
	}
	dir, err := absolute(dir)
	if err != nil {
		return nil, err
	}
	if err := checkVolume(dir); err != nil {
		return nil, err
	}
	return &Token{paths: pathsOf(dir, name), disk: realDisk(), wait: DefaultLockWait}, nil
}

// Load returns the highest token seen, 0 for none. It waits for nobody: whoever raises the token replaces it in one step.
// The error is a *fence.SetupError if the state is damaged or may not be read.
func (t *Token) Load(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return t.load()
}

// Raise keeps a token that is not below the highest one, and returns when it is on the disk. resource is what errors call
// it. The error is a *fence.StaleError for a token below the highest one, and a *fence.SetupError if nothing will work
// before somebody has changed something; after any other it is not known whether the token was raised. The lock is waited
// for until the context ends, and for DefaultLockWait.
func (t *Token) Raise(ctx context.Context, resource string, token int64) error {
	return t.locked(ctx, func() error {
		t.sweep()
		kept, err := t.admit(resource, token)
		if err != nil || kept {
			return err
		}
		// Whoever wrote it may have been killed before this.
		dir, err := openDirectory(t.dir)
		if err != nil {
			return unusable(err)
		}
		defer dir.Close()
		return t.syncDir(dir, errUnsyncedToken)
	})
}

// admit refuses a token that is below the highest one seen, and keeps one that is above it. Call with the lock held.
func (t *Token) admit(resource string, token int64) (kept bool, err error) {
	if err := fence.CheckToken(token); err != nil {
		return false, err
	}
	highest, err := t.load()
	if err != nil {
		return false, err
	}
	t.step("after the compare")
	switch {
	case token < highest:
		return false, &fence.StaleError{Resource: resource, Token: token, Highest: highest}
	case token == highest:
		return false, nil
	}
	return true, t.keep(token)
}

// load reads the state.
func (t *Token) load() (int64, error) {
	const longest = 64 // a token takes less
	f, err := openRegular(t.state, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, t.unreadable(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return 0, t.unreadable(err)
	}
	// Without the end of its line it may be a part of a token.
	digits, whole := strings.CutSuffix(string(text), "\n")
	token, err := fence.ParseToken(digits)
	if !whole || err != nil {
		return 0, remedy.Misconfigured(
			"somebody has changed it: write the number of the job's last run into it as one line, or remove it once no earlier run can be alive",
			"%s does not hold a token and the end of a line", t.state)
	}
	return token, nil
}

func (t *Token) unreadable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return unusable(err)
	}
	return remedy.Misconfigured("restore "+t.state, "the highest token seen cannot be read: %w", err)
}

// keep replaces the state, which stays whole until then, and returns when the new one is on the disk.
func (t *Token) keep(token int64) error {
	tmp, err := t.newTemporary(openMode)
	if err != nil {
		return err
	}
	defer tmp.drop()
	_, err = tmp.file.WriteString(strconv.FormatInt(token, 10) + "\n")
	if err == nil {
		err = t.sync(tmp.file)
	}
	if err != nil {
		return unusable(err)
	}
	return t.place(tmp, t.state, errUnsyncedToken)
}
