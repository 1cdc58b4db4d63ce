package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// rules is the version of everything that decides which instants an expression stands for. Hosts with different
// versions have different fingerprints. Raise it with every change of a tick.
const rules = "1"

const (
	maxLength      = 500 // bytes of one expression; each minute and each hour written out is 230
	maxExpressions = 32

	// Ticks lie between these, in Unix seconds. 0 stands for "no tick" in a record.
	firstTick = 1
	lastTick  = 253402300799 // the end of the year 9999
)

// Schedule is a set of ticks: the union of its expressions.
type Schedule struct {
	rules []rule
}

// rule is one expression in one zone.
type rule struct {
	text    string // as people wrote it
	zone    *time.Location
	pattern pattern
	fixed   bool // see the package comment
}

// pattern says which readings of a clock are meant, as if the clock were never changed. A reading is a number of
// seconds: what the Unix time would be if the clock showed UTC.
type pattern interface {
	next(reading int64) int64 // the first at or after; farOff if there is none
	last(reading int64) int64 // the last at or before; -farOff if there is none
	key() string              // equal for equal patterns
}

// farOff is beyond every reading and instant, and small enough to add to.
const farOff = 1 << 60

// Error says what is wrong with an expression, in one line.
type Error struct {
	Expr string // the expression; empty if it is not about one
	Why  string // names the field
	Hint string // the remedy
}

func (e *Error) Error() string {
	text := e.Why
	if e.Expr != "" {
		text = quote(e.Expr) + ": " + text
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Explain parts what is wrong from the remedy, which is "" for an error of another kind.
func Explain(err error) (why, hint string) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error(), ""
	}
	return (&Error{Expr: e.Expr, Why: e.Why}).Error(), e.Hint
}

// quote makes any input a short piece of one line.
func quote(text string) string {
	const enough = 60
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// Parse reads one or more expressions; the schedule is their union. zone is a name of the IANA database, for those
// that name none themselves; empty is the zone of the host (see HostZone), which then must have one. An error is
// an *Error. No input panics.
func Parse(exprs []string, zone string) (*Schedule, error) {
	switch n := len(exprs); {
	case n == 0:
		return nil, &Error{Why: "no expression", Hint: `write one, such as "0 2 * * *"`}
	case n > maxExpressions:
		return nil, &Error{Why: fmt.Sprintf("%d expressions", n), Hint: fmt.Sprintf("write at most %d", maxExpressions)}
	}
	given := zones{name: zone}
	if zone != "" {
		if _, err := given.get(); err != nil {
			return nil, err
		}
	}
	s := &Schedule{}
	for _, expr := range exprs {
		r, err := parseExpression(expr, &given)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.rules, func(other rule) bool { return other.key() == r.key() }) {
			s.rules = append(s.rules, r)
		}
	}
	return s, nil
}

// Next returns the first tick after an instant, in UTC. It is false when there is none before the year 10000.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	from := max(min(after.Unix(), lastTick)+1, firstTick)
	first := int64(farOff)
	for i := range s.rules {
		first = min(first, s.rules[i].next(from))
	}
	return instant(first)
}

// Last returns the latest tick at or before an instant, in UTC. It is false when there is none after the beginning
// of 1970.
func (s *Schedule) Last(at time.Time) (time.Time, bool) {
	to := min(max(at.Unix(), firstTick-1), lastTick)
	latest := int64(-farOff)
	for i := range s.rules {
		latest = max(latest, s.rules[i].last(to))
	}
	return instant(latest)
}

func instant(tick int64) (time.Time, bool) {
	if tick < firstTick || tick > lastTick {
		return time.Time{}, false
	}
	return time.Unix(tick, 0).UTC(), true
}

// Fingerprint identifies the schedule: equal for schedules that mean the same by their fields and zones, however
// they are written (0 2 * * MON and 00 02 * * 1), and different for another version of the rules of this package.
// The rules of the zones do not enter it.
func (s *Schedule) Fingerprint() string {
	var keys []string
	for i := range s.rules {
		keys = append(keys, s.rules[i].key())
	}
	slices.Sort(keys)
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	return rules + "-" + hex.EncodeToString(sum[:16])
}

// String is the schedule for people: the expressions as they were written, and the zone.
func (s *Schedule) String() string {
	one := !slices.ContainsFunc(s.rules, func(r rule) bool { return r.zone.String() != s.rules[0].zone.String() })
	var texts []string
	for _, r := range s.rules {
		if one {
			texts = append(texts, r.text)
		} else {
			texts = append(texts, "CRON_TZ="+r.zone.String()+" "+r.text)
		}
	}
	text := strings.Join(texts, "; ")
	if one {
		text += " (" + s.rules[0].zone.String() + ")"
	}
	return text
}

func (r *rule) key() string {
	return fmt.Sprintf("%s fixed=%t %s", r.zone, r.fixed, r.pattern.key())
}
