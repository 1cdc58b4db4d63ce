package main

import (
	"math"
	"strconv"
	"strings"
)

// quantity is a number of some unit; from a second on, milliseconds are told in seconds.
func quantity(v float64, unit string) string {
	const second = 1000
	switch {
	case unit == "" && v == math.Trunc(v):
		return thousands(int(v))
	case unit == "":
		return number(v)
	case unit == "ms" && v >= second:
		return number(v/second) + " s"
	}
	return number(v) + " " + unit
}

// between names the ends of a range, and the unit once where both have the same.
func between(low, high float64, unit string) string {
	from, to := quantity(low, unit), quantity(high, unit)
	number, its, _ := strings.Cut(from, " ")
	if _, other, _ := strings.Cut(to, " "); its == other {
		from = number
	}
	return from + " to " + to
}

// number writes three digits, or all before the point.
func number(v float64) string {
	const digits = 3
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 99.95:
		return thousands(int(math.Round(v)))
	}
	before := max(1, int(math.Floor(math.Log10(math.Abs(v))))+1)
	return strconv.FormatFloat(v, 'f', digits-before, 64)
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
