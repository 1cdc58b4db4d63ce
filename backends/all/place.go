package all

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/ownership"
)

// Place is where a URL says that a store is, as far as its text tells. Users, passwords and certificates are no part of it.
type Place struct {
	Scheme string
	Addrs  []string // HOST:PORT each; or the path of a socket or folder, or a namespace
	Within string   // which part of the servers: database, prefix and the like
}

// fileOptions name files, which only the host has that uses the URL. They are read only.
var fileOptions = strings.Fields("ca cert key sslrootcert sslcert sslkey token-file")

// PlaceOf reads a URL. Files that it names need not be there, and no server is asked. The error is a *backends.PermanentError.
func PlaceOf(rawURL string) (Place, error) {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	switch scheme = strings.ToLower(scheme); scheme {
	case "file": // its driver makes the folder
		return Place{Scheme: scheme, Addrs: []string{filepath.Clean("/" + strings.TrimPrefix(rest, "//"))}}, nil
	case "k8s": // its driver reads the files of kubectl
		rest, query, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		namespace, prefix, _ := strings.Cut(rest, "/")
		given, _ := url.ParseQuery(query)
		return Place{scheme, []string{cmp.Or(namespace, "default")}, cmp.Or(prefix, given.Get("prefix")) + " " + given.Get("context")}, nil
	}
	store, err := Open(rawURL)
	_, noFile := errors.AsType[*fs.PathError](err)
	if _, foreign := errors.AsType[*ownership.Error](err); noFile || foreign {
		before, query, _ := strings.Cut(rawURL, "?")
		options := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return slices.Contains(fileOptions, name)
		})
		store, err = Open(before + "?" + strings.Join(options, "&"))
	}
	if err != nil {
		return Place{}, err
	}
	defer store.Close()
	return placeOf(store.Redacted(), store.Prefix()), nil
}

// placeOf reads what a driver shows of its URL.
func placeOf(shown, prefix string) Place {
	scheme, rest, _ := strings.Cut(shown, "://")
	rest, query, _ := strings.Cut(rest, "?")
	at := strings.LastIndex(rest, "@")
	user, _, _ := strings.Cut(rest[:max(at, 0)], ":")
	hosts, path, _ := strings.Cut(rest[at+1:], "/")
	if hosts == "" { // of a socket
		hosts, path = "/"+path, ""
	}
	given, _ := url.ParseQuery(query)
	p := Place{Scheme: scheme, Addrs: strings.Split(hosts, ",")}
	switch {
	case strings.HasPrefix(scheme, "postgres"): // a database is called like its user, if nothing else is said
		p.Scheme, path = "postgres", cmp.Or(strings.Trim(path, "/"), user, given.Get("user"))
	case !strings.HasPrefix(scheme, "redis"): // the path is a part of the prefix
		path = ""
	}
	p.Within = prefix + " " + path
	for _, name := range []string{"db", "dc", "namespace", "partition"} {
		p.Within += " " + given.Get(name)
	}
	return p
}

func (p Place) String() string {
	if p.Scheme == "file" {
		return "file:"
	}
	return p.Scheme + "://" + strings.Join(p.Addrs, ",") + strings.TrimRight("/"+strings.ReplaceAll(strings.TrimSpace(p.Within), " ", ","), "/")
}

// IsSame says whether two places can be one store: they have a server in common, and what is within is the same.
func (p Place) IsSame(other Place) bool {
	return p.Scheme == other.Scheme && p.Within == other.Within &&
		slices.ContainsFunc(p.Addrs, func(addr string) bool { return slices.Contains(other.Addrs, addr) })
}

// IsLocal says whether each host has a store of its own there: a folder, a socket, or the one server of a host that asks itself.
func (p Place) IsLocal() bool {
	switch p.Scheme {
	case "file", "redis+unix":
		return true
	case "redis", "rediss", "postgres":
		return !slices.ContainsFunc(p.Addrs, func(addr string) bool {
			return !strings.HasPrefix(addr, "localhost:") && !strings.HasPrefix(addr, "127.") && !strings.HasPrefix(addr, "[::1]:")
		})
	}
	return false
}
