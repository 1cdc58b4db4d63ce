package filefence

import (
	"errors"
	"strings"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/flock"
)

// ownerSuffix is that of the file which is locked for as long as a process owns a token.
const ownerSuffix = ".proxy.lock"

// Own makes this process the only one that owns the token, until release is called or the process ends, however it does. Others
// may still raise it. The error is a *fence.SetupError, also where another process owns the token.
func (t *Token) Own() (release func(), err error) {
	owned := *t
	owned.lock = strings.TrimSuffix(t.state, stateSuffix) + ownerSuffix
	f, err := owned.tryLock()
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &fence.SetupError{
			Kind: fence.Configuration, Err: errors.New("another process owns it: " + owned.lock + " is locked"),
			Hint: "end the other one first; what it protects may have another name",
		}
	}
	return func() { flock.Unlock(f) }, nil
}
