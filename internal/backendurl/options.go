package backendurl

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// caRemedy is what helps where the file of an authority cannot be used.
const caRemedy = "name a file with certificates in PEM form, which this user can read"

const largestPEM = 16 << 20

// Option is one query parameter of a URL that configures a C.
type Option[C any] struct {
	Help   string
	Secret bool            // Redacted hides the value
	Fits   func(c *C) bool // whether this URL may have it; nil: every one
	Set    func(c *C, value string) error
}

// Options are the query parameters that URLs may have, by name.
type Options[C any] map[string]Option[C]

// read sets what the URL's options say. One that is not known, or does not fit, is an error that lists those
// that are.
func (o Options[C]) read(u *URL, c *C) error {
	o = o.withTLS(u.Files)
	values, err := url.ParseQuery(u.query)
	if err != nil {
		return backends.Misconfigured("a % in an option is written as %25", "the options of the URL cannot be read")
	}
	u.Options = url.Values{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		option, ok := o[name]
		if !ok || (option.Fits != nil && !option.Fits(c)) {
			hint := o.list(c)
			if strings.Contains(u.query, "@") { // perhaps the rest of a password that was not percent-encoded
				name, hint = "…", hint+"; "+escapes
			}
			return backends.Misconfigured(hint, "the URL has an option that %s:// does not know: %q", u.Scheme, name)
		}
		if len(values[name]) > 1 {
			return backends.Misconfigured("keep one of them", "the URL has ?%s= more than once", name)
		}
		value := values.Get(name)
		if err := option.Set(c, value); err != nil {
			hint := option.Help
			if value == "" {
				hint = "write a value behind " + name + "=, or leave the option out"
			}
			return backends.Misconfigured(hint, "option %s of the URL: %w", name, err)
		}
		if option.Secret {
			value = redacted
		}
		u.Options.Set(name, value)
	}
	return nil
}

func (o Options[C]) list(c *C) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if option := o[name]; option.Fits == nil || option.Fits(c) {
			list = append(list, name+" ("+option.Help+")")
		}
	}
	return "options: " + strings.Join(list, ", ")
}

// Text is an option that is any text but an empty one.
func Text[C any](help string, field func(c *C) *string) Option[C] {
	return Option[C]{Help: help, Set: func(c *C, v string) error {
		*field(c) = v
		if v == "" {
			return errors.New("it is empty")
		}
		return nil
	}}
}

// Prefix is the option that says what all keys begin with.
func Prefix[C any](prefix func(c *C) *string) Option[C] {
	return Text("what all keys begin with", prefix)
}

// DefaultLongestTTL is what LongestTTL is where it is not given.
const DefaultLongestTTL = 30 * time.Second

// LongestTTL is the option of stores that may forget leases: after that nobody is granted for as long.
func LongestTTL[C any](longest func(c *C) *time.Duration) Option[C] {
	return Option[C]{Help: "the longest TTL that is allowed here", Set: func(c *C, v string) (err error) {
		*longest(c), err = Duration(v)
		return err
	}}
}

// TLSFiles are the options that make a TLS configuration together.
type TLSFiles struct {
	CA, Cert, Key, ServerName string

	names   map[string]string // other names of these options, each with ours
	written map[string]string // the names of options as the URL has them, by ours
}

// name returns an option's name as the URL has it.
func (f *TLSFiles) name(ours string) string { return cmp.Or(f.written[ours], ours) }

// withTLS adds the options of TLSFiles. nil: the URL asks for no TLS.
func (o Options[C]) withTLS(f *TLSFiles) Options[C] {
	if f == nil {
		return o
	}
	all := maps.Clone(o)
	f.written = map[string]string{}
	add := func(ours, help string, field *string) {
		for _, name := range append(f.others(ours), ours) {
			all[name] = Option[C]{Help: help, Set: func(_ *C, v string) error {
				*field, f.written[ours] = v, name
				return nil
			}}
		}
	}
	add("ca", "file with the authority that signed the server's certificate", &f.CA)
	add("cert", "file with our certificate", &f.Cert)
	add("key", "file with its key", &f.Key)
	add("server-name", "name in the server's certificate", &f.ServerName)
	return all
}

// others returns the other names of an option.
func (f *TLSFiles) others(ours string) (names []string) {
	for name, of := range f.names {
		if of == ours {
			names = append(names, name)
		}
	}
	return names
}

// Config reads the files. On nil it returns nil: no TLS.
func (f *TLSFiles) Config() (*tls.Config, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // as net/http has it: no configuration is no TLS
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := ownership.ReadAny(f.CA, largestPEM)
		if err != nil {
			return nil, backends.Misconfigured(cmp.Or(ownership.Remedy(err), caRemedy), "option %s of the URL: %w", f.name("ca"), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, backends.Misconfigured(caRemedy, "option %s of the URL: %s holds no certificate in PEM form", f.name("ca"), f.CA)
		}
	}
	cert, key := f.name("cert"), f.name("key")
	if (f.Cert == "") != (f.Key == "") {
		return nil, backends.Misconfigured("?"+cert+"=FILE&"+key+"=FILE", "the URL has only one of the options %s and %s", cert, key)
	}
	if f.Cert != "" {
		pair, err := loadPair(f.Cert, f.Key)
		if err != nil {
			return nil, backends.Misconfigured(cmp.Or(ownership.Remedy(err), "name files with a certificate and its key in PEM form, which this user can read"),
				"options %s and %s of the URL: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func loadPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := ownership.ReadAny(cert, largestPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := ownership.ReadAny(key, largestPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
