package fence

import (
	"fmt"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// StaleError says that a run has been overtaken: the resource has seen a higher token, and nothing was written.
type StaleError struct {
	Resource string
	Token    int64 // of the run that was refused
	Highest  int64 // that the resource has seen; 0: it does not say
}

func (e *StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("%s: token %d is stale: a later run has raised the fence", e.Resource, e.Token)
	}
	return fmt.Sprintf("%s: token %d is stale: a run with token %d has raised the fence", e.Resource, e.Token, e.Highest)
}

// SetupError is a failure that no retry mends: somebody has to change something first. Nothing was written. It has a Kind, the
// cause Err, and a Hint: the remedy in one line, or "".
type SetupError = remedy.Error

// SetupKind says what has to be changed.
type SetupKind = remedy.Kind

// The kinds of a SetupError.
const (
	Configuration = remedy.Configuration // the address, an option, a missing table or directory, the resource's kind
	Credentials   = remedy.Credentials   // the resource refuses the user, password or key, or the right to write
)
