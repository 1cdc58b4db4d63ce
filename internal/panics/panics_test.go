package panics

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// A panic where nobody waits reaches the handler, which does not return.
func TestPanicsReachTheHandler(t *testing.T) {
	told := make(chan *Panic)
	Handle(func(p *Panic) {
		told <- p
		runtime.Goexit()
	})
	defer handler.Store(nil)
	over, end := context.WithCancel(t.Context())
	end()
	for name, call := range map[string]func(f func()){
		"a goroutine":          Go,
		"what is awaited":      func(f func()) { _, _ = Await(over, func() (int, error) { f(); return 0, nil }) },
		"a timer":              func(f func()) { time.AfterFunc(0, Caught(f)) },
		"the end of a context": func(f func()) { context.AfterFunc(over, Caught(f)) },
	} {
		call(func() { panic(name) })
		if p := <-told; p.Error() != name || len(p.Stack) == 0 {
			t.Errorf("%s: %v", name, p)
		}
	}
}
