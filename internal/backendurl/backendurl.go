// Package backendurl reads the URLs that name stores on servers: SCHEME://USER:PASSWORD@HOST,HOST/PATH?OPTIONS.
//
// It splits by hand, because net/url knows no host lists and repeats the URL, password and all, in its errors.
// No error of this package shows any part of a URL that a password may be in. All are
// *backends.PermanentError.
package backendurl

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/duration"
)

const redacted = "xxxxx"

// escapes is the remedy where a user or password may have been taken for another part of the URL.
const escapes = "in a user or password, / ? @ : and % are written as %2F %3F %40 %3A and %25"

// Form says what URLs of one kind look like.
type Form struct {
	Of      string            // what they are of: "an etcd backend"
	Shapes  string            // examples, for the hint of an error
	Schemes map[string]Scheme // by name, in lower case

	UserAlone, PasswordAlone bool // a user may have no password, a password no user

	TLSNames map[string]string // other names of options of TLSFiles, each with ours
}

// Scheme says what stands behind one scheme.
type Scheme struct {
	Port   string // of a host that names none
	Socket bool   // the path of a socket stands in place of the hosts
	Name   bool   // one name, or nothing, stands in place of the hosts
	TLS    bool   // the URL may have the options of TLSFiles
}

// URL is a URL taken apart.
type URL struct {
	Scheme  string
	Login   *Login
	Addrs   []string   // HOST:PORT, or the path of the socket, or the name
	Path    string     // what follows the hosts, without the first slash, still escaped
	Files   *TLSFiles  // nil: the scheme asks for no TLS
	Options url.Values // for Redacted: as given, without secrets

	query string
	form  Form
	place string // the URL without its user and password
}

// SchemeOf returns what stands before the ://, in lower case; "": nothing does.
func SchemeOf(raw string) string {
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok {
		return ""
	}
	return strings.ToLower(scheme)
}

// Read takes a URL apart, and sets in c what its options say.
func Read[C any](raw string, f Form, options Options[C], c *C) (*URL, error) {
	u, err := parse(raw, f)
	if err != nil {
		return nil, err
	}
	return u, options.read(u, c)
}

// parse takes a URL apart, but for its options.
func parse(raw string, form Form) (*URL, error) {
	u := &URL{Scheme: SchemeOf(raw), Login: new(Login), form: form}
	scheme, ok := form.Schemes[u.Scheme]
	if !ok {
		return nil, backends.Misconfigured(form.Shapes, "this is not the URL of %s", form.Of)
	}
	if scheme.TLS {
		u.Files = &TLSFiles{names: form.TLSNames}
	}
	f := shape{form, scheme}
	_, rest, _ := strings.Cut(raw, "://")
	rest, u.query, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if f.Socket { // its path is all after user and password
		authority, path = "", rest
		if i := strings.LastIndex(rest, "@/"); i >= 0 {
			authority, path = rest[:i+1], rest[i+1:]
		}
	} else if strings.Contains(path, "@") {
		return nil, backends.Misconfigured(escapes, "the URL has an @ after its hosts")
	}
	hosts := authority
	u.place = u.Scheme + "://" + rest + "?" + u.query
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		hosts = authority[i+1:]
		u.place = u.Scheme + "://" + rest[i+1:] + "?" + u.query
		if err := u.setUser(authority[:i], f); err != nil {
			return nil, err
		}
	}
	set := u.setHosts
	switch {
	case f.Socket:
		hosts, set = path, u.setSocket
	case f.Name:
		u.Path, set = path, u.setName
	default:
		u.Path = path
	}
	if err := set(hosts, f); err != nil {
		if strings.Contains(u.query, "@") {
			return nil, backends.Misconfigured(escapes, "the URL has an @ after its hosts")
		}
		return nil, err
	}
	if !f.Socket && !f.Name && strings.Contains(path, ",") { // else a host that has it so uses other keys than the rest
		return nil, backends.Misconfigured("the path comes once, after all hosts; a comma in it is written as %2C", "the path of the URL has a comma")
	}
	return u, nil
}

// shape is what a URL must look like.
type shape struct {
	Form
	Scheme
}

func (u *URL) setUser(s string, f shape) error {
	user, password, _ := strings.Cut(s, ":")
	user, errUser := url.PathUnescape(user)
	password, errPassword := url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return backends.Misconfigured("a % in a user or password is written as %25", "the user or password in the URL is not percent-encoded")
	}
	if user != "" && password == "" && !f.UserAlone {
		return backends.Misconfigured(f.Shapes, "the URL has a user without a password")
	}
	if user == "" && password != "" && !f.PasswordAlone {
		return backends.Misconfigured(f.Shapes, "the URL has a password without a user")
	}
	u.Login = NewLogin(user, password)
	return nil
}

func (u *URL) setSocket(path string, f shape) error {
	socket, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(socket, "/") {
		return backends.Misconfigured(f.Shapes, "the URL has no path of a socket")
	}
	u.Addrs = []string{socket}
	return nil
}

func (u *URL) setName(name string, f shape) error {
	if strings.ContainsAny(name, ",:%@") || u.Login.User() != "" || u.Login.Password() != "" {
		return backends.Misconfigured(f.Shapes, "the URL has more than a name")
	}
	if name != "" {
		u.Addrs = []string{name}
	}
	return nil
}

func (u *URL) setHosts(hosts string, f shape) error {
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, port = host, f.Port
			inner, isBracketed := strings.CutPrefix(host, "[")
			if isBracketed {
				name, _ = strings.CutSuffix(inner, "]")
			}
			if isBracketed != strings.HasSuffix(host, "]") || strings.Contains(name, ":") && !isBracketed || strings.ContainsAny(name, "[]") {
				name = ""
			}
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || name == "" {
			return backends.Misconfigured(f.Shapes, "the URL has a host that is not HOST or HOST:PORT")
		}
		u.Addrs = append(u.Addrs, net.JoinHostPort(name, port))
	}
	return nil
}

// Prefix returns what all keys begin with, before a slash: the path of the URL, the value of ?prefix= ("": not
// given), or else the default.
func (u *URL) Prefix(option, byDefault string) (string, error) {
	path, err := url.PathUnescape(strings.TrimSuffix(u.Path, "/"))
	option = strings.TrimSuffix(option, "/")
	switch {
	case err != nil:
		return "", backends.Misconfigured("a % in a prefix is written as %25", "the path of the URL is not percent-encoded")
	case path != "" && option != "":
		return "", backends.Misconfigured(u.Scheme+"://HOST/PREFIX, or ?prefix=PREFIX", "the URL has two prefixes, in its path and in its options")
	}
	return cmp.Or(path, option, byDefault), nil
}

// Redacted writes the URL without its secrets.
func (u *URL) Redacted() string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	user, password := u.Login.Get()
	user, misplaced, _ := strings.Cut(user, ":") // the password of who has written u%3Ap for u:p
	switch {
	case password != "" || misplaced != "":
		b.WriteString(url.PathEscape(user) + ":" + redacted + "@")
	case user != "":
		b.WriteString(url.PathEscape(user) + "@")
	}
	b.WriteString(strings.Join(u.Addrs, ","))
	if u.Path != "" {
		b.WriteString("/" + u.Path)
	}
	if len(u.Options) > 0 {
		b.WriteString("?" + u.Options.Encode())
	}
	return b.String()
}

// Duration reads one of a millisecond at least. Its error does not show the text.
func Duration(text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil || d < time.Millisecond {
		return 0, errors.New("it is not a duration like 30s")
	}
	return d, nil
}
