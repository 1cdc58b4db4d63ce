package etcd

import (
	"net/url"
	"strings"
)

// keys are the names of a job's keys: PREFIX/JOB/lease, PREFIX/JOB/record and PREFIX/JOB/beat. A job's name is escaped, never
// restricted: it has no slash inside a key, and every key can be printed and typed.
type keys struct{ lease, record, beat []byte }

func (c *config) keys(job string) keys {
	dir := c.prefix + "/" + url.PathEscape(job) + "/"
	return keys{lease: []byte(dir + "lease"), record: []byte(dir + "record"), beat: []byte(dir + "beat")}
}

// jobOf returns the job that a record's key belongs to.
func (c *config) jobOf(key string) (string, bool) {
	name, ours := strings.CutPrefix(key, c.prefix+"/")
	name, isRecord := strings.CutSuffix(name, "/record")
	if !ours || !isRecord || strings.Contains(name, "/") { // a longer prefix has keys of its own below this one
		return "", false
	}
	job, err := url.PathUnescape(name)
	return job, err == nil && url.PathEscape(job) == name
}

// below returns the range of all keys that begin with a directory, given without its last slash: the end is what
// follows the slash.
func below(dir string) (from, end []byte) { return []byte(dir + "/"), []byte(dir + "0") }
