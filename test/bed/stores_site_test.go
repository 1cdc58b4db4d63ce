package bed

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
)

// hanging is a server that answers only after it was started again.
type hanging struct{ revived int }

func (h *hanging) Signal(syscall.Signal) error { return nil }
func (h *hanging) Kill()                       {}
func (h *hanging) Ended() bool                 { return false }
func (h *hanging) PID() int                    { return 0 }
func (h *hanging) Data() string                { return "" }
func (h *hanging) Restart(testing.TB, bool)    { h.revived++ }

func (h *hanging) Answers() error {
	if h.revived == 0 {
		return errors.New("no answer")
	}
	return nil
}

func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		x := siteOf(nil, h)
		if err := x.whole(t); err == nil {
			t.Error("it is whole")
		}
		x.revive = h.Restart
		if err := x.whole(t); err != nil || h.revived != 1 {
			t.Errorf("started again %d times: %v", h.revived, err)
		}
	})
}
