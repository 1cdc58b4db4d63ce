package fence

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// The variables that `leaderrun run` sets for its command, of which a Run is made.
const (
	TokenVariable = "LEADERRUN_TOKEN"
	JobVariable   = "LEADERRUN_JOB"
	TickVariable  = "LEADERRUN_TICK"
	OnceVariable  = "LEADERRUN_ONCE"
)

// Run is a run of a job, as the resource knows it.
type Run struct {
	Token int64  // greater than that of every run of the job before; at least 1
	Job   string // may be empty
	Tick  string // the scheduled instant, RFC 3339 in UTC; "": the run has none
	Once  string // the key of --once; "": the run has none
}

// FromEnvironment returns the run that this process is part of. The error is an *EnvironmentError.
func FromEnvironment() (Run, error) { return RunFrom(os.LookupEnv) }

// RunFrom is FromEnvironment with another environment.
func RunFrom(lookup func(string) (string, bool)) (Run, error) {
	text, _ := lookup(TokenVariable)
	if text == "" {
		return Run{}, &EnvironmentError{Variable: TokenVariable, Reason: "is not set"}
	}
	token, err := ParseToken(text)
	if err == nil {
		err = CheckToken(token)
	}
	if err != nil {
		return Run{}, &EnvironmentError{Variable: TokenVariable, Reason: err.Error()}
	}
	r := Run{Token: token}
	r.Job, _ = lookup(JobVariable)
	r.Tick, _ = lookup(TickVariable)
	r.Once, _ = lookup(OnceVariable)
	return r, nil
}

// MaxAhead is how far a token may be ahead of the clock of the host that looks at it. Tokens follow the clock of the store, in
// milliseconds since 1970.
const MaxAhead = 24 * time.Hour

// CheckToken refuses what cannot be the token of a run: numbers below 1, and those that are more than MaxAhead ahead of this
// host's clock. A resource that took one of those would refuse all runs that come after it, and for good. The error is a
// *SetupError. Every Raise of the packages below checks the token of its run.
func CheckToken(token int64) error {
	if token < 1 {
		return remedy.Misconfigured("", "%d is not a token: a whole number from 1 on", token)
	}
	if token > time.Now().Add(MaxAhead).UnixMilli() {
		return remedy.Misconfigured("set the clock of this host; or the clock of the store was wrong when the job got its token",
			"%d is not a token: it is more than a day ahead of the clock of this host", token)
	}
	return nil
}

// ParseToken reads a token: decimal digits and nothing else, at least 1. What a run brings is checked by CheckToken, too; what
// a resource keeps is what it is.
func ParseToken(text string) (int64, error) {
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token < 1 || strconv.FormatInt(token, 10) != text {
		return 0, fmt.Errorf("%.40q is not a token: a whole number from 1 on", text)
	}
	return token, nil
}

// Trigger is what of a job happens once: the tick, or "once:" and the key, or "" where the run has neither.
func (r Run) Trigger() string {
	if r.Once != "" {
		return "once:" + r.Once
	}
	return r.Tick
}

// EnvironmentError says that a variable that `leaderrun run` sets is missing or makes no sense.
type EnvironmentError struct {
	Variable, Reason string
}

func (e *EnvironmentError) Error() string { return e.Variable + ": " + e.Reason }
