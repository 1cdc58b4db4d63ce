package launch

import (
	"os"
	"os/user"
	"strconv"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

// ThisHolder is what status shows of this process. The name is the password database's: the variable USER
// survives su and sudo.
func ThisHolder() backends.Holder {
	h := backends.Holder{PID: os.Getpid()}
	h.Host, _ = os.Hostname()
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil {
		h.User = u.Username
	} else {
		h.User = "uid " + uid
	}
	return h
}

// Inside lists the holders whose runs have started this process: by the guardians above it, which sudo and su do not hide, and by the
// variable, where another PID namespace does.
func Inside() backends.Inside {
	ids := supervise.Holders()
	if id := os.Getenv(cli.HolderVariable); id != "" {
		ids = append(ids, id)
	}
	return ids
}

// ThisOperator is who gives orders: this process, under an id of its own.
func ThisOperator() backends.Holder {
	h := ThisHolder()
	h.ID = backends.NewID()
	return h
}
