package zookeeper

import (
	"crypto/tls"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const defaultPrefix = "leaderrun"

var form = backendurl.Form{
	Of:      "a ZooKeeper backend",
	Shapes:  "zk://USER:PASSWORD@HOST:PORT,HOST:PORT/CHROOT?prefix=PREFIX, zks:// (TLS)",
	Schemes: map[string]backendurl.Scheme{"zk": {Port: "2181"}, "zks": {Port: "2181", TLS: true}},
}

// config is what a backend URL says.
type config struct {
	url    *backendurl.URL
	prefix string
	dir    string      // the node below which all others are: /CHROOT/PREFIX
	tls    *tls.Config // nil: none
}

var knownOptions = backendurl.Options[config]{
	"prefix": backendurl.Prefix(func(c *config) *string { return &c.prefix }),
}

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{prefix: defaultPrefix}
	u, err := backendurl.Read(raw, form, knownOptions, c)
	if err != nil {
		return nil, err
	}
	c.url = u
	if strings.Contains(u.Login.User(), ":") {
		return nil, backends.Misconfigured(form.Shapes, "the backend URL has a user with a colon")
	}
	chroot, err := url.PathUnescape(u.Path)
	if err != nil {
		return nil, backends.Misconfigured("a % in a path is written as %25", "the path of the URL is not percent-encoded")
	}
	for _, part := range []string{chroot, c.prefix} {
		if part = strings.Trim(part, "/"); part != "" {
			c.dir += "/" + part
		}
	}
	if !isPath(c.dir) {
		return nil, backends.Misconfigured(form.Shapes, "chroot and prefix of the backend URL make no path that ZooKeeper takes")
	}
	c.tls, err = u.Files.Config()
	return c, err
}

// wire says how to talk to a server.
func (c *config) wire(changed func(path string)) wire.Config {
	return wire.Config{TLS: c.tls, User: c.url.Login.User(), Password: c.url.Login.Password(), Changed: changed}
}

// isPath says whether ZooKeeper takes a path (PathUtils.validatePath); / is none.
func isPath(path string) bool {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, isForbidden) {
			return false
		}
	}
	return true
}

func isForbidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
