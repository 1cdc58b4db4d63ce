package filefence

import (
	"strings"

	"github.com/leaderrun/leaderrun/internal/flock"
	"github.com/leaderrun/leaderrun/internal/remedy"
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
		return nil, remedy.Misconfigured("end the other one first; what it protects may have another name",
			"another process owns it: %s is locked", owned.lock)
	}
	return func() { flock.Unlock(f) }, nil
}
