package backends

import (
	"errors"
	"fmt"
	"testing"
)

// TestAbout: hazard: the word of a store is wrapped until nobody knows it for one, or a failure does not say what failed.
func TestAbout(t *testing.T) {
	t.Parallel()
	denied := Denied("ask", errors.New("no"))
	for _, err := range []error{nil, &Refusal{Verdict: Held}, ErrLost, ErrUnknownJob, ErrOver, ErrLags, denied, Misconfigured("write", "bad %d", 7)} {
		if got := About("claim", "job", err); got != err { //nolint:errorlint // this very one
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := About("claim", "job", errors.New("EOF")); got.Error() != `claim "job": EOF` || IsPermanent(got) {
		t.Errorf("%v", got)
	}
	if !IsPermanent(fmt.Errorf("h: %w", denied)) {
		t.Error("a refusal is not permanent")
	}
}
