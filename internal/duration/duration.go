// Package duration reads durations as people write them, wherever they do: in options, files, URLs and schedules.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour
	// Longest bounds every duration, so that an instant plus a duration never overflows.
	Longest = 100 * 365 * day
)

// Parse reads Go's form of a duration, with d for a day, or a bare number of seconds.
func Parse(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return bounded(text, seconds*float64(time.Second))
	}
	head, rest, inDays := strings.Cut(text, "d")
	if !inDays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, notDuration(text)
		}
		return bounded(text, float64(d))
	}
	days, err := strconv.ParseFloat(head, 64)
	if err != nil {
		return 0, notDuration(text)
	}
	sum := days * float64(day)
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest[:1], "+-") {
			return 0, notDuration(text)
		}
		if strings.HasPrefix(text, "-") {
			d = -d
		}
		sum += float64(d)
	}
	return bounded(text, sum)
}

func bounded(text string, nanoseconds float64) (time.Duration, error) {
	switch {
	case math.IsNaN(nanoseconds):
		return 0, notDuration(text)
	case math.Abs(nanoseconds) > float64(Longest):
		return 0, fmt.Errorf("%q is longer than 100 years", text)
	}
	return time.Duration(math.Round(nanoseconds)), nil
}

func notDuration(text string) error {
	return fmt.Errorf("%q is not a duration like 90s, 1h30m, 2d, or 15 for seconds", text)
}

// Positive reads a duration that must be longer than nothing.
func Positive(text string) (time.Duration, error) {
	d, err := Parse(text)
	if err == nil && d <= 0 {
		return 0, fmt.Errorf("%q is not longer than nothing", text)
	}
	return d, err
}

// NotNegative reads a duration that may be 0.
func NotNegative(text string) (time.Duration, error) {
	d, err := Parse(text)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	return d, err
}

// Bound reads a positive duration, or "none" (0), which undoes a bound that was set elsewhere.
func Bound(text string) (time.Duration, error) {
	if text == "none" {
		return 0, nil
	}
	d, err := Positive(text)
	if err != nil && text == "0" {
		return 0, errors.New(`"0" would end it at once: say "none" for no bound`)
	}
	return d, err
}

// Deadline is Bound for the time until a start.
func Deadline(text string) (time.Duration, error) {
	d, err := Bound(text)
	if err != nil && text == "0" {
		return 0, errors.New(`"0" would start nothing: say "none" for no bound`)
	}
	return d, err
}
