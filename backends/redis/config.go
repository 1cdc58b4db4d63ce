package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPrefix  = "leaderrun"
	defaultLongest = 30 * time.Second
	longestHint    = "?longest-ttl=DURATION in the backend URL raises it, on every host; after the store was lost nobody runs for so long"
	shapes         = "redis://USER:PASSWORD@HOST:PORT/DB, rediss:// (TLS), redis+unix:///SOCKET?db=N, redis+sentinel://HOST,HOST/MASTER/DB, redis+cluster://HOST,HOST"
)

type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// config is what a backend URL says.
type config struct {
	kind           kind
	scheme         string
	network        string   // tcp or unix
	addrs          []string // of the server, the Sentinels, or some nodes
	master         string   // Sentinel's name of the master
	user, password string
	db             int
	tls            *tls.Config // nil: none

	sentinelUser, sentinelPassword string

	prefix   string
	replicas int // how many must acknowledge; -1: as many as were ever seen
	longest  time.Duration
	given    url.Values // as given
}

// option is one query parameter of the URL.
type option struct {
	help string
	fits func(c *config) bool // nil: every URL
	set  func(c *config, f *tlsFiles, value string) error
}

// tlsFiles are the options that make a TLS configuration together.
type tlsFiles struct{ ca, cert, key, serverName string }

var knownOptions = map[string]option{
	"prefix": {help: "what all keys begin with", set: func(c *config, _ *tlsFiles, v string) error {
		c.prefix = v
		if v == "" {
			return errors.New("it is empty")
		}
		return nil
	}},
	"replicas": {help: "how many replicas must acknowledge, less than were ever seen", set: func(c *config, _ *tlsFiles, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 100 {
			return errors.New("it is not a number from 0 to 100")
		}
		c.replicas = n
		return nil
	}},
	"longest-ttl": {help: "the longest TTL that is allowed here", set: func(c *config, _ *tlsFiles, v string) (err error) {
		c.longest, err = duration(v)
		return err
	}},
	"db": {
		help: "the number of the database",
		fits: func(c *config) bool { return c.network == "unix" },
		set:  func(c *config, _ *tlsFiles, v string) (err error) { c.db, err = database(v); return err },
	},
	"ca":          {help: "file with the authority that signed the server's certificate", fits: secure, set: func(_ *config, f *tlsFiles, v string) error { f.ca = v; return nil }},
	"cert":        {help: "file with our certificate", fits: secure, set: func(_ *config, f *tlsFiles, v string) error { f.cert = v; return nil }},
	"key":         {help: "file with its key", fits: secure, set: func(_ *config, f *tlsFiles, v string) error { f.key = v; return nil }},
	"server-name": {help: "name in the server's certificate", fits: secure, set: func(_ *config, f *tlsFiles, v string) error { f.serverName = v; return nil }},
	"sentinel-user": {help: "user of the Sentinels", fits: hasSentinels, set: func(c *config, _ *tlsFiles, v string) error {
		c.sentinelUser = v
		return nil
	}},
	"sentinel-password": {help: "password of the Sentinels", fits: hasSentinels, set: func(c *config, _ *tlsFiles, v string) error {
		c.sentinelPassword = v
		return nil
	}},
}

func secure(c *config) bool       { return c.tls != nil }
func hasSentinels(c *config) bool { return c.kind == sentinel }

// parseURL reads a backend URL. It splits by hand, because net/url knows no host lists and repeats the URL,
// password and all, in its errors. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{network: "tcp", prefix: defaultPrefix, replicas: -1, longest: defaultLongest}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !c.setScheme(strings.ToLower(scheme)) {
		return nil, configuration(shapes, "this is not the URL of a Redis backend")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if c.network == "unix" {
		// The socket's path is all after user and password.
		authority, path = "", rest
		if i := strings.LastIndex(rest, "@/"); i >= 0 {
			authority, path = rest[:i+1], rest[i+1:]
		}
	}
	if strings.Contains(path, "@") && c.network == "tcp" {
		return nil, configuration("in a user or password, / ? @ : and % are written as %2F %3F %40 %3A and %25", "the backend URL has an @ after its hosts")
	}
	hosts := authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		hosts = authority[i+1:]
		if err := c.setUser(authority[:i]); err != nil {
			return nil, err
		}
	}
	if err := c.setPath(path); err != nil {
		return nil, err
	}
	if c.network == "tcp" {
		if err := c.setHosts(hosts); err != nil {
			return nil, err
		}
	}
	if err := c.setOptions(query); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *config) setScheme(scheme string) bool {
	c.scheme = scheme
	switch strings.TrimPrefix(strings.TrimPrefix(scheme, "rediss"), "redis") {
	case "":
	case "+sentinel":
		c.kind = sentinel
	case "+cluster":
		c.kind = cluster
	case "+unix":
		c.network = "unix"
	default:
		return false
	}
	if strings.HasPrefix(scheme, "rediss") {
		c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return strings.HasPrefix(scheme, "redis") && !(c.tls != nil && c.network == "unix")
}

func (c *config) setUser(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var errUser, errPassword error
	c.user, errUser = url.PathUnescape(user)
	c.password, errPassword = url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return configuration("a % in a user or password is written as %25", "the user or password in the backend URL is not percent-encoded")
	}
	if c.user != "" && c.password == "" {
		return configuration("redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST", "the backend URL has a user without a password")
	}
	return nil
}

func (c *config) setHosts(hosts string) error {
	port := "6379"
	if c.kind == sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, p = strings.Trim(host, "[]"), port
			if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
				name = ""
			}
		}
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || name == "" {
			return configuration(shapes, "the backend URL has a host that is not HOST or HOST:PORT")
		}
		c.addrs = append(c.addrs, net.JoinHostPort(name, p))
	}
	if c.kind == single && len(c.addrs) > 1 {
		return configuration("redis+sentinel://HOST,HOST/MASTER or redis+cluster://HOST,HOST", "the backend URL has more than one host")
	}
	return nil
}

func (c *config) setPath(path string) (err error) {
	if c.network == "unix" {
		socket, err := url.PathUnescape(path)
		if err != nil || !strings.HasPrefix(socket, "/") {
			return configuration("redis+unix:///SOCKET?db=N", "the backend URL has no path of a socket")
		}
		c.addrs = []string{socket}
		return nil
	}
	if c.kind == sentinel {
		var escaped string
		escaped, path, _ = strings.Cut(path, "/")
		if c.master, err = url.PathUnescape(escaped); err != nil || c.master == "" {
			return configuration("redis+sentinel://HOST,HOST/MASTER", "the backend URL does not name the master")
		}
	}
	if path == "" {
		return nil
	}
	if c.kind == cluster {
		return configuration(shapes, "a Redis Cluster has no databases: the backend URL ends after the hosts")
	}
	if c.db, err = database(path); err != nil {
		return configuration(shapes, "the path of the backend URL: %w", err)
	}
	return nil
}

func database(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, errors.New("the database is not a number")
	}
	return n, nil
}

func (c *config) setOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return configuration("a % in an option is written as %25", "the options of the backend URL cannot be read")
	}
	c.given = values
	var files tlsFiles
	for _, name := range slices.Sorted(maps.Keys(values)) {
		o, ok := knownOptions[name]
		if !ok || (o.fits != nil && !o.fits(c)) {
			if strings.Contains(query, "@") { // perhaps the rest of a password that was not percent-encoded
				name = "…"
			}
			return configuration(c.optionList(), "the backend URL has an option that %s:// does not know: %q", c.scheme, name)
		}
		if len(values[name]) > 1 {
			return configuration("", "the backend URL has ?%s= more than once", name)
		}
		if err := o.set(c, &files, values.Get(name)); err != nil {
			return configuration(o.help, "option %s of the backend URL: %w", name, err)
		}
	}
	if c.tls != nil {
		return c.setTLS(files)
	}
	return nil
}

func (c *config) optionList() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(knownOptions)) {
		if o := knownOptions[name]; o.fits == nil || o.fits(c) {
			list = append(list, name+" ("+o.help+")")
		}
	}
	return "options: " + strings.Join(list, ", ")
}

func (c *config) setTLS(f tlsFiles) error {
	c.tls.ServerName = f.serverName
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return configuration("", "option ca of the backend URL: %w", err)
		}
		c.tls.RootCAs = x509.NewCertPool()
		if !c.tls.RootCAs.AppendCertsFromPEM(pem) {
			return configuration("", "option ca of the backend URL: %s holds no certificate in PEM form", f.ca)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return configuration("?cert=FILE&key=FILE", "the backend URL has only one of the options cert and key")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return configuration("", "options cert and key of the backend URL: %w", err)
		}
		c.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// duration reads Go's form; a bare number is seconds, d is a day.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, errNumber := strconv.ParseFloat(strings.TrimSuffix(s, "d"), 64); errNumber == nil && err != nil && n < 1e6 {
		unit := time.Second
		if strings.HasSuffix(s, "d") {
			unit = 24 * time.Hour
		}
		d, err = time.Duration(n*float64(unit)), nil
	}
	if err != nil || d < time.Millisecond {
		return 0, errors.New("it is not a duration like 30s")
	}
	return d, nil
}

// required is how many replicas must acknowledge a step, when as many as seen were connected at most.
func (c *config) required(seen int) int {
	switch {
	case c.replicas >= 0:
		return c.replicas
	case c.kind != single:
		return max(seen, 1)
	}
	return seen
}

// redacted writes the URL without passwords.
func (c *config) redacted() string {
	var b strings.Builder
	b.WriteString(c.scheme + "://")
	if c.password != "" {
		b.WriteString(url.PathEscape(c.user) + ":xxxxx@")
	}
	b.WriteString(strings.Join(c.addrs, ","))
	if c.master != "" {
		b.WriteString("/" + url.PathEscape(c.master))
	}
	if c.db != 0 && c.network == "tcp" {
		b.WriteString("/" + strconv.Itoa(c.db))
	}
	options := url.Values{}
	for name, v := range c.given {
		options[name] = v
		if name == "sentinel-password" {
			options[name] = []string{"xxxxx"}
		}
	}
	if len(options) > 0 {
		b.WriteString("?" + options.Encode())
	}
	return b.String()
}
