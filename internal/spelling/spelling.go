// Package spelling guesses what a mistyped word may have meant.
package spelling

import "strings"

// Closest returns the candidate that a mistyped word may have meant, or "".
func Closest(typed string, candidates []string) string {
	best, found := 1+len(typed)/3, ""
	for _, c := range candidates {
		if d := distance(strings.ToLower(typed), c); d < best || (d == best && found == "") {
			best, found = d, c
		}
		if len(typed) >= 3 && strings.HasPrefix(c, typed) && found == "" {
			found = c
		}
	}
	return found
}

// distance counts the characters to insert, delete, replace or swap with their neighbour.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
