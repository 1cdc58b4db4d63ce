package zookeeper

import (
	"net/url"
	"strings"
)

// keys are the names of a job's nodes: CHROOT/PREFIX/JOB, and the lease below it. A job's name is escaped, never
// restricted: it has no slash inside a name, and every name can be printed and typed.
type keys struct{ record, lease string }

func (c *config) keys(job string) keys {
	record := c.dir + "/" + escape(job)
	return keys{record: record, lease: record + "/lease"}
}

// escape makes the name of a node. ZooKeeper has no nodes named . and .., which url.PathEscape leaves as they are.
func escape(job string) string {
	if job == "." || job == ".." {
		return strings.ReplaceAll(job, ".", "%2E")
	}
	return url.PathEscape(job)
}

// jobOf returns the job that a node is named after.
func jobOf(name string) (string, bool) {
	job, err := url.PathUnescape(name)
	return job, err == nil && escape(job) == name
}

// parents returns a node's parents, the nearest first, without the root.
func parents(path string) (all []string) {
	for {
		i := strings.LastIndexByte(path, '/')
		if i <= 0 {
			return all
		}
		path = path[:i]
		all = append(all, path)
	}
}
