package fence

import (
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

func TestAnErrorHasOneExitCode(t *testing.T) {
	denied := &fence.SetupError{Kind: fence.Credentials, Err: io.EOF}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"its own code":                {&cli.Fault{Code: cli.CodeStale, Err: denied}, cli.CodeStale},
		"that of its cause":           {&cli.Fault{Err: fmt.Errorf("open: %w", denied)}, cli.CodeCredentials},
		"no cause":                    {&cli.Fault{}, cli.CodeInternal},
		"wrapped":                     {fmt.Errorf("x: %w", cli.Usage("a", "b", "")), cli.CodeUsage},
		"a store's":                   {backends.Misconfigured("", "x"), cli.CodeConfiguration},
		"a store's refusal":           {backends.Denied("", io.EOF), cli.CodeCredentials},
		"a resource, stale":           {fenceFailed("x", &fence.StaleError{}), cli.CodeStale},
		"a resource, to be set right": {fenceFailed("x", denied), cli.CodeCredentials},
		"a resource out of reach":     {fenceFailed("x", io.EOF), cli.CodeUnavailable},
		"Redis, misused":              {redisFailed("x", &redisfence.CommandError{Misused: true, Err: io.EOF}), cli.CodeUsage},
		"Redis, a right is missing":   {redisFailed("x", &redisfence.CommandError{Kind: fence.Credentials, Err: io.EOF}), cli.CodeCredentials},
		"Redis, it failed":            {redisFailed("x", &redisfence.CommandError{Begun: true, Err: io.EOF}), cli.CodeConfiguration},
		"the command is not there":    {&supervise.ExecError{Errno: syscall.ENOENT}, 127},
		"anything else":               {io.EOF, cli.CodeInternal},
	} {
		if got := cli.ErrorCode(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
