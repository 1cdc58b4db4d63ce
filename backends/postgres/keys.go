package postgres

import "net/url"

// markKey is the key of the row that holds the mark. No job has it: their names are not empty.
const markKey = ""

// keyOf escapes the name of a job: PostgreSQL has no zero byte in a text, and a database may have an encoding that has
// not every letter. All keys are ASCII, and can be printed and typed.
func keyOf(job string) string { return url.PathEscape(job) }

func jobOf(key string) (string, bool) {
	job, err := url.PathUnescape(key)
	return job, err == nil && job != "" && keyOf(job) == key
}
