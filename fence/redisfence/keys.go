package redisfence

import (
	"strings"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// Key returns the name of the key that is the fence.
func (x *Resource) Key() string { return "leaderrun:fence:" + x.tagged() }

// happened is the key of what has happened once.
func (x *Resource) happened() string { return "leaderrun:once:" + x.tagged() }

// tagged is the name with a hash tag.
func (x *Resource) tagged() string {
	if hashTag(x.name) != "" {
		return x.name
	}
	return "{" + x.name + "}"
}

// hashTag is the part of a key that decides its slot, where that is not all of it: what stands between the first { and the
// next }. "": all of it decides.
func hashTag(key string) string {
	_, tail, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(tail, "}")
	if !closed {
		return ""
	}
	return tag
}

// checkName refuses names that have no key of their own, or one in a slot that nobody would guess.
func checkName(name string) error {
	if name != "" && (hashTag(name) != "" || !strings.ContainsAny(name, "{}")) {
		return nil
	}
	why := "the resource has no name"
	if name != "" {
		why = "the resource's name has braces that are no hash tag"
	}
	return remedy.Misconfigured("name it like invoices, or {invoices}", "%s", why)
}

// keysAmong returns the words with a hash tag. On a Cluster they are keys, or might be: only of a key that was announced does a
// node know that it is just being moved to another one.
func keysAmong(words []any, tag string) []string {
	var keys []string
	for _, w := range words {
		if text, ok := textOf(w); ok && hashTag(text) == tag {
			keys = append(keys, text)
		}
	}
	return keys
}

func textOf(word any) (string, bool) {
	switch w := word.(type) {
	case string:
		return w, true
	case []byte:
		return string(w), true
	}
	return "", false
}
