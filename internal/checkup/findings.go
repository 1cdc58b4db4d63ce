// Package checkup is what the examinations of all stores share: it asks several hosts, and turns their answers into findings.
package checkup

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// The names of findings that several stores have. Not every store shows a clock.
const (
	Reachable = "reachable" // a Bad one of this name: the store answers nothing
	Rights    = "rights"
	Clock     = "clock"
)

// Findings collects what Examine finds, in the order in which it is told.
type Findings []backends.Finding

// Fine notes what is as it should be.
func (f *Findings) Fine(what, format string, args ...any) {
	f.add(backends.Fine, what, "", format, args...)
}

// Warn notes what is worth a look, and its remedy.
func (f *Findings) Warn(what, remedy, format string, args ...any) {
	f.add(backends.Warning, what, remedy, format, args...)
}

// Bad notes why the store must not be trusted, and the remedy.
func (f *Findings) Bad(what, remedy, format string, args ...any) {
	f.add(backends.Bad, what, remedy, format, args...)
}

func (f *Findings) add(g backends.Grade, what, remedy, format string, args ...any) {
	*f = append(*f, backends.Finding{Grade: g, What: what, Why: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Failed notes an error of the store as a Bad finding, with the error's own hint, or else remedy.
func (f *Findings) Failed(what, remedy string, err error) {
	f.Bad(what, remedyOf(err, remedy), "%v", err)
}

// remedyOf returns the hint of an error, or else the remedy.
func remedyOf(err error, remedy string) string {
	if p, ok := errors.AsType[*backends.PermanentError](err); ok && p.Hint != "" {
		return p.Hint
	}
	return remedy
}

// The steps of an offset between two clocks.
const (
	offsetNoticed = 2 * time.Second // a run sleeps to its instant if that is nearer than this
	offsetTooFar  = backends.MaxTickAhead
)

// Offset judges the clock of a store, which is ahead of this host's by offset, give or take err.
func (f *Findings) Offset(whose string, offset, err time.Duration) {
	const remedy = "run chronyd, or another NTP client, on this host and on the server"
	certain := max(offset.Abs()-err, 0)
	const unit = time.Millisecond
	distance := "in step with"
	switch off := offset.Abs().Round(unit); {
	case off == 0:
	case offset > 0:
		distance = fmt.Sprintf("%v ahead of", off)
	default:
		distance = fmt.Sprintf("%v behind", off)
	}
	why := fmt.Sprintf("%s is %s this host's (±%v)", whose, distance, (err + unit - 1).Truncate(unit))
	switch {
	case certain > offsetTooFar:
		f.Bad(Clock, remedy, "%s: ticks more than %v ahead are refused", why, offsetTooFar)
	case certain > offsetNoticed:
		f.Warn(Clock, remedy, "%s: ticks are claimed early or late by as much", why)
	default:
		f.Fine(Clock, "%s", why)
	}
}

// InClear warns of a secret that crosses a network unencrypted: to other hosts than this one.
func (f *Findings) InClear(secret string, addrs []string, remedy string) {
	for _, addr := range addrs {
		if host, _, _ := net.SplitHostPort(addr); !IsLocal(addr) {
			f.Warn("encryption", remedy, "the %s crosses the network in clear to %s", secret, host)
			return
		}
	}
}
