// Package kubeconfig reads the files in which kubectl finds its clusters and users
// (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/). What a file asks for and leaderrun does not do is an
// error: what it leaves out might be what keeps a cluster safe.
package kubeconfig

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

const largest = 16 << 20 // a file that is longer is no kubeconfig

// Context is one context of a kubeconfig, with all that belongs to it. Paths are absolute, or relative to the working
// folder.
type Context struct {
	Name      string
	Namespace string // "": it names none
	Cluster   Cluster
	User      User // what it shows to this server

	Withheld bool // the user has something to show, and this server must not see it
}

// Cluster says where a server is and how it is known.
type Cluster struct {
	Server     string `yaml:"server"` // its scheme in lower case
	Secure     bool   `yaml:"-"`      // it is spoken to over TLS
	Local      bool   `yaml:"-"`      // it is on this host, by its address or the name localhost
	CA         string `yaml:"certificate-authority"`
	CAData     []byte `yaml:"-"`
	ServerName string `yaml:"tls-server-name"`

	EncodedCA string `yaml:"certificate-authority-data"`
	Insecure  bool   `yaml:"insecure-skip-tls-verify"`
	Proxy     string `yaml:"proxy-url"`
}

// User says who asks.
type User struct {
	Token     string `yaml:"token"`
	TokenFile string `yaml:"tokenFile"`
	Cert      string `yaml:"client-certificate"`
	Key       string `yaml:"client-key"`
	CertData  []byte `yaml:"-"`
	KeyData   []byte `yaml:"-"`
	Exec      *Exec  `yaml:"exec"`

	EncodedCert string    `yaml:"client-certificate-data"`
	EncodedKey  string    `yaml:"client-key-data"`
	Username    string    `yaml:"username"`
	Password    string    `yaml:"password"`
	Provider    yaml.Node `yaml:"auth-provider"`
	As          string    `yaml:"as"`
}

// Exec names a credential plugin.
type Exec struct {
	APIVersion string   `yaml:"apiVersion"`
	Command    string   `yaml:"command"`
	Args       []string `yaml:"args"`
	Env        []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	InstallHint    string `yaml:"installHint"`
	Interactive    string `yaml:"interactiveMode"`
	ProvideCluster bool   `yaml:"provideClusterInfo"`
}

// wrong is what is wrong with a kubeconfig. It shows no secret.
func wrong(hint, format string, args ...any) error {
	return backends.Misconfigured(hint, "kubeconfig: "+format, args...)
}

// file is a kubeconfig as it is written.
type file struct {
	Current  string `yaml:"current-context"`
	Clusters []struct {
		Name    string  `yaml:"name"`
		Cluster Cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User User   `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string    `yaml:"name"`
		Context reference `yaml:"context"`
	} `yaml:"contexts"`
}

type reference struct {
	Cluster   string `yaml:"cluster"`
	User      string `yaml:"user"`
	Namespace string `yaml:"namespace"`
}

// merged are several files as one: what comes first counts.
type merged struct {
	current  string
	clusters map[string]Cluster
	users    map[string]User
	contexts map[string]reference
	read     []string // the files that are there
}

func newMerged() *merged {
	return &merged{clusters: map[string]Cluster{}, users: map[string]User{}, contexts: map[string]reference{}}
}

// Load reads files as one, as kubectl does: of what they say twice the first counts. Files that do not exist are left
// out if there is another. An empty context is the current one. It starts nothing and asks nobody.
func Load(paths []string, context string) (*Context, error) {
	all := newMerged()
	var missing error
	for _, path := range paths {
		if err := all.add(path); errors.Is(err, fs.ErrNotExist) {
			missing = err
		} else if err != nil {
			return nil, err
		}
	}
	if len(all.read) == 0 {
		return nil, cmp.Or(missing, wrong("?kubeconfig=FILE names one", "no file is named"))
	}
	return all.context(context)
}

func (m *merged) add(path string) error {
	text, err := ownership.ReadAny(path, largest) // its plugin would be run, and its server believed
	if err != nil {
		return wrong(cmp.Or(ownership.Remedy(err), "?kubeconfig=FILE names another one"), "%w", err)
	}
	return m.merge(path, text)
}

// merge adds what a file says that the ones before have not said.
func (m *merged) merge(path string, text []byte) error {
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return wrong("`kubectl config view --kubeconfig FILE` says where it is wrong; ?kubeconfig=FILE names another one",
			"%s cannot be read as YAML", path) // the error may show what stands there
	}
	dir := filepath.Dir(path)
	m.read = append(m.read, path)
	m.current = cmp.Or(m.current, f.Current)
	for _, x := range f.Clusters {
		beside(dir, &x.Cluster.CA)
		first(m.clusters, x.Name, x.Cluster)
	}
	for _, x := range f.Users {
		beside(dir, &x.User.TokenFile, &x.User.Cert, &x.User.Key)
		if e := x.User.Exec; e != nil && strings.ContainsRune(e.Command, filepath.Separator) {
			beside(dir, &e.Command)
		}
		first(m.users, x.Name, x.User)
	}
	for _, x := range f.Contexts {
		first(m.contexts, x.Name, x.Context)
	}
	return nil
}

func first[T any](all map[string]T, name string, one T) {
	if _, ok := all[name]; !ok {
		all[name] = one
	}
}

// beside makes paths of a file those that they are for everybody.
func beside(dir string, paths ...*string) {
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// context puts a context together.
func (m *merged) context(name string) (*Context, error) {
	where := strings.Join(m.read, ", ")
	name = cmp.Or(name, m.current)
	if name == "" {
		return nil, wrong("?context=NAME names one", "%s has no current context", where)
	}
	of, ok := m.contexts[name]
	if !ok {
		return nil, wrong("kubectl config get-contexts lists them", "%s has no context %q", where, name)
	}
	c := &Context{Name: name, Namespace: of.Namespace}
	if c.Cluster, ok = m.clusters[of.Cluster]; !ok {
		return nil, wrong("add it, or name another context by ?context=NAME", "%s has no cluster %q, which the context %q names", where, of.Cluster, name)
	}
	if c.User, ok = m.users[of.User]; !ok && of.User != "" {
		return nil, wrong("add it, or name another context by ?context=NAME", "%s has no user %q, which the context %q names", where, of.User, name)
	}
	if err := c.Cluster.check(of.Cluster); err != nil {
		return nil, err
	}
	if err := c.User.check(of.User); err != nil {
		return nil, err
	}
	err := c.withhold(of.User)
	return c, err
}

// withhold keeps what a user shows from a server that is not spoken to over TLS: whoever is in between could read and use it. A
// server on this host is asked without it, as kubectl does: that is kubectl's own proxy, or one like it, which shows its own.
func (c *Context) withhold(user string) error {
	switch u := &c.User; {
	case c.Cluster.Secure || u.Token == "" && u.TokenFile == "" && u.Cert == "" && u.CertData == nil && u.Exec == nil:
		return nil
	case !c.Cluster.Local:
		return wrong("write https:// before the server's address, with certificate-authority beside it",
			"the server %s is not spoken to over TLS, and everybody in between could read what user %q shows", c.Cluster.Server, user)
	}
	c.User, c.Withheld = User{}, true
	return nil
}
