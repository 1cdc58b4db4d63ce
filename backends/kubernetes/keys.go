package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	lowerAlnum = "abcdefghijklmnopqrstuvwxyz0123456789"

	longestLease  = 253 // a subdomain of RFC 1123
	hashLength    = 20  // hexadecimal digits
	longestPlain  = longestLease - hashLength - 1
	longestEscape = 60 // of what people recognize in front of a hash

	recordKey  = "leaderrun/record" // annotation: the record, as JSON
	prefixKey  = "leaderrun/prefix" // annotation: the prefix; label: the same, as far as a label can say it
	beatKey    = "leaderrun/beat"   // annotation: the beat, where the last update was none
	managerKey = "app.kubernetes.io/managed-by"
	manager    = "leaderrun"
)

// leaseName returns what the Lease of a job is called: PREFIX-JOB where Kubernetes takes that for a name, and otherwise
// what people may recognize of it and a hash. A job that looks as if it had such a hash gets one of its own.
//
// Two prefixes may lead to one name: a-b with the job c, and a with b-c. The annotations say whose the Lease is, and the
// other one is refused.
func (c *config) leaseName(job string) string {
	plain := c.prefix + "-" + job
	if isSubdomain(plain) && len(plain) <= longestPlain && !looksHashed(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(c.prefix + "\x00" + job))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	text := strings.Map(func(r rune) rune {
		if strings.ContainsRune(lowerAlnum, r) {
			return r
		}
		return '-'
	}, strings.ToLower(plain))
	text = strings.Trim(text[:min(len(text), longestEscape)], "-")
	if text == "" {
		return manager + "-" + hash
	}
	return text + "-" + hash
}

// isSubdomain says whether a name is a subdomain of RFC 1123, in lower case.
func isSubdomain(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.Trim(label, lowerAlnum+"-") != "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
	}
	return true
}

func looksHashed(name string) bool {
	i := strings.LastIndexByte(name, '-')
	return len(name)-i-1 == hashLength && strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// labelValue returns the prefix as the value of a label, by which the Leases of a prefix are listed. One that no label
// can say is hashed.
func (c *config) labelValue() string {
	const inside = lowerAlnum + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	p := c.prefix
	if len(p) <= longestName && strings.Trim(p, inside+"-_.") == "" && strings.Trim(p, "-_.") == p {
		return p
	}
	sum := sha256.Sum256([]byte(p))
	return "hash-" + hex.EncodeToString(sum[:])[:hashLength]
}

// labels are what the Leases of a prefix have in common.
func (c *config) labels() map[string]string {
	return map[string]string{managerKey: manager, prefixKey: c.labelValue()}
}

func (c *config) selector() string {
	return managerKey + "=" + manager + "," + prefixKey + "=" + c.labelValue()
}

// about names a Lease as kubectl takes it.
func (c *config) about(job string) string {
	return "lease " + c.leaseName(job) + " in namespace " + c.namespace
}
