package httpfence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Keeper is where a Handler keeps the highest token of each resource. It is asked once for every request that has a token, by
// several goroutines at once. A service may keep them in its own database.
type Keeper interface {
	// Raise keeps the token as the highest one of the resource, unless a higher one is kept already, and returns the highest
	// one: in one atomic step, and for good before it returns. After an error it is not known whether the token is kept.
	Raise(ctx context.Context, resource string, token int64) (highest int64, err error)
}

// KeepError is that of a Keeper: the request was not let in.
type KeepError struct {
	Resource string
	Err      error
}

func (e *KeepError) Error() string {
	return fmt.Sprintf("%s: the fence cannot be raised: %v", e.Resource, e.Err)
}

// Unwrap returns the cause.
func (e *KeepError) Unwrap() error { return e.Err }

// MaxInMemory is how many resources a Memory keeps. To forget one would let stale requests pass, so there is no room for more.
const MaxInMemory = 100_000

// Memory keeps the highest tokens in memory, of MaxInMemory resources at most. It forgets them when the process ends: the first
// stale request after that passes, unless a newer one came before it. The zero value is empty.
type Memory struct {
	mu      sync.Mutex
	highest map[string]int64
}

var errFull = errors.New("there are too many resources to keep in memory")

// Raise is that of Keeper.
func (m *Memory) Raise(_ context.Context, resource string, token int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	highest, known := m.highest[resource]
	switch {
	case highest >= token:
		return highest, nil
	case !known && len(m.highest) >= MaxInMemory:
		return 0, errFull
	case m.highest == nil:
		m.highest = map[string]int64{}
	}
	m.highest[resource] = token
	return token, nil
}
