package servers

import (
	"slices"
	"sync"
	"testing"
)

// sharedKubernetes is that of SharedKubernetes, while a test has it.
var sharedKubernetes struct {
	sync.Mutex
	server *KubernetesServer
	life   *life
	users  int
}

// SharedKubernetes returns a Kubernetes that the tests of this process share while they run beside each other. Who
// asks breaks nothing but what is in a namespace of its own.
func SharedKubernetes(t testing.TB) *KubernetesServer {
	t.Helper()
	Require(t, "kubernetes")
	x := &sharedKubernetes
	x.Lock()
	defer x.Unlock()
	if x.server == nil {
		born := &life{TB: t}
		defer func() {
			if x.server == nil {
				born.end()
			}
		}()
		x.server, x.life = Kubernetes(born, KubernetesOptions{}), born
	}
	x.users++
	t.Cleanup(func() {
		x.Lock()
		defer x.Unlock()
		if x.users--; x.users == 0 {
			x.life.end()
			x.server, x.life = nil, nil
		}
	})
	return x.server
}

// life is a test to those who need one to start a server, and ends when it is told, not when the test does.
type life struct {
	testing.TB
	cleanups []func()
}

// Cleanup is that of a test.
func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// TempDir is that of a test.
func (l *life) TempDir() string { return Dir(l) }

func (l *life) end() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}
