// Package spelling guesses what a mistyped word may have meant.
package spelling

import "strings"

// Closest returns the candidate that a mistyped word may have meant, or "". Where none is spelt alike, it is the shortest one that
// the word abbreviates, as cmd does command, or that differs in its end, as retries from retry.
func Closest(typed string, candidates []string) string {
	typed = strings.ToLower(typed)
	best, found := 2+len(typed)/3, ""
	for _, c := range candidates {
		if d := distance(typed, c); d < best {
			best, found = d, c
		}
	}
	if found != "" || len(typed) < 3 {
		return found
	}
	for _, c := range candidates {
		if (found == "" || len(c) < len(found)) && (abbreviates(typed, c) || len(typed) > 3 && strings.HasPrefix(c, typed[:len(typed)-1])) {
			found = c
		}
	}
	return found
}

// abbreviates says whether a text begins as a word does, and has its other letters in their order.
func abbreviates(word, text string) bool {
	if text == "" || word[0] != text[0] {
		return false
	}
	at := 0
	for i := 0; i < len(text) && at < len(word); i++ {
		if text[i] == word[at] {
			at++
		}
	}
	return at == len(word)
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
