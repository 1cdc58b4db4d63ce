package consul

import (
	"net/url"
	"strings"
)

// The two keys of a job, below PREFIX/JOB/.
const (
	lockName   = "lock"
	recordName = "record"
)

// dir returns what the names of a job's keys begin with, and those of no other job.
func (c *config) dir(job string) string { return c.root() + escape(job) + "/" }

// root returns what the names of all keys begin with.
func (c *config) root() string {
	var b strings.Builder
	for part := range strings.SplitSeq(c.prefix, "/") {
		b.WriteString(escape(part) + "/")
	}
	return b.String()
}

// jobOf returns the job that a record's key belongs to.
func (c *config) jobOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, c.root())
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "/"+recordName)
	if !ok || strings.Contains(name, "/") {
		return "", false
	}
	job, err := url.PathUnescape(name)
	return job, err == nil
}

// escape makes a name one part of a key. Keys travel in the path of a URL, where Consul takes printable
// characters only and cleans what looks like a relative path.
func escape(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
