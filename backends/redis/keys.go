package redis

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// key returns the name of one of a job's keys. The braces make all keys of a job live on one node of a
// cluster; names are escaped, never restricted.
func (c *config) key(job, what string) string {
	return escape(c.prefix) + ":{" + escape(job) + "}:" + what
}

// keys returns KEYS of the scripts. A cluster has no place for one mark: there each job has its own.
func (c *config) keys(job string) []string {
	mark := escape(c.prefix) + ":mark"
	if c.Kind == redisurl.Cluster {
		mark = c.key(job, "mark")
	}
	return []string{c.key(job, "lease"), c.key(job, "record"), mark}
}

// jobOf returns the job that a record's key belongs to.
func (c *config) jobOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, escape(c.prefix)+":{")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "}:record")
	job, err := url.PathUnescape(name)
	return job, ok && err == nil
}

// escape makes a name safe inside a key: what divides keys and leases, and what would garble a terminal.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == 0x7f || strings.IndexByte("{}|%:", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// slots of a cluster: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
const slotCount = 16384

// slotOf returns the slot of a key: CRC16/XMODEM of what is between its first braces.
func slotOf(key string) int {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % slotCount)
}
