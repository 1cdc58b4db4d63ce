package api

import (
	"net/http"
	"sync"
	"time"
)

// forgiven is how long a server may refuse a client that it has let in before, from its first refusal on. One that has just
// started, and one that cannot ask those who know the tokens, refuse everybody for a while.
const forgiven = time.Minute

// door is what a client knows of whether it is let in. Which credential it showed does not count: some plugins bring another
// for each one that is refused. It is safe for concurrent use.
type door struct {
	mu      sync.Mutex
	open    bool      // once at least
	refused time.Time // for the first time in a row; zero: not since it was let in
}

// saw notes how the server has answered to who showed a credential.
func (d *door) saw(code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case code/100 == 2:
		d.open, d.refused = true, time.Time{}
	case code == http.StatusUnauthorized && d.refused.IsZero():
		d.refused = time.Now()
	}
}

// mayOpen says of a refusal that was noted whether it may pass. Another request may have been let in since.
func (d *door) mayOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open && (d.refused.IsZero() || time.Since(d.refused) < forgiven)
}
