// Package value reads what options and the keys of job files are given: words, whole numbers and names.
package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// OneOf makes the function that reads one of a few words.
func OneOf[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		var all []string
		for _, w := range words {
			if text == string(w) {
				return w, nil
			}
			all = append(all, string(w))
		}
		return "", fmt.Errorf("%q is none of %s", text, strings.Join(all, ", "))
	}
}

// Unbounded is the most that a number may be which nothing but its type bounds.
const Unbounded = math.MaxInt32

// Number makes the function that reads a whole number.
func Number(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= least && n <= most:
			return n, nil
		case most == Unbounded:
			return 0, fmt.Errorf("%q is not a whole number of at least %d", text, least)
		}
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, least, most)
	}
}

// LongestName is how long the names of jobs, and keys, may be, in bytes.
const LongestName = 255

// NotName says what is wrong with the name of a job, or a key, as the end of a sentence; "": nothing.
func NotName(text string) string {
	switch {
	case text == "":
		return "is empty"
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case strings.ContainsRune(text, 0):
		return "contains a zero byte"
	case len(text) > LongestName:
		return fmt.Sprintf("is longer than %d bytes", LongestName)
	}
	return ""
}

// IsVariable says whether a shell would take a text for the name of a variable.
func IsVariable(name string) bool {
	const letters = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && strings.Trim(name, letters+"0123456789") == "" && strings.Contains(letters, name[:1])
}
