package runner

import (
	"context"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
)

// A panic in any goroutine of a run reaches whoever called Run. The lease is left alone: the tree may live.
func TestAPanicIsOneOfRun(t *testing.T) {
	for where, set := range map[string]func(*bed){
		"renewal":  func(b *bed) { b.renewal = func(int) answer { panic("on purpose") } },
		"claim":    func(b *bed) { b.acquire = func(int, backends.Claim) (backends.Grant, error) { panic("on purpose") } },
		"finish":   func(b *bed) { b.finish = func(int) answer { panic("on purpose") } },
		"variable": func(b *bed) { b.request.Env = func(backends.Grant) []string { panic("on purpose") } },
		"watch": func(b *bed) {
			b.request.Wait = Forever
			b.acquire = func(int, backends.Claim) (backends.Grant, error) {
				return backends.Grant{}, &backends.Refusal{Verdict: backends.Held, Wait: time.Hour, Token: 3}
			}
		},
	} {
		virtualRun(t, where, func(t *testing.T, b *bed) {
			set(b)
			b.duration = 10 * time.Second
			defer func() {
				p, ok := recover().(*panics.Panic)
				if !ok || p.Error() != "on purpose" || len(p.Stack) == 0 {
					t.Errorf("%v came out", p)
				}
				if len(b.finished)+b.abandoned > 0 {
					t.Error("the lease was released")
				}
				time.Sleep(time.Hour) // the fake tree lives on
			}()
			r := Runner{Driver: faultyWatch{b}, Clock: b.clock, jitter: func(time.Duration) time.Duration { return 0 }}
			r.Run(b.ctx, b.request)
		})
	}
}

type faultyWatch struct{ *bed }

func (faultyWatch) Watch(context.Context, string) (<-chan backends.News, error) { panic("on purpose") }
