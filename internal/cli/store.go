package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// What is special about the backend.
const (
	BackendFile    = Prefix + "BACKEND_FILE"
	defaultBackend = "file:"
	MinSecret      = 6 // a shorter one is hidden only where it stands in a URL
)

// Backend finds the URL of the backend, and whether anybody named one.
func (c *Call) Backend() (g Given, named bool, err error) {
	g, named = c.Settings.Find("backend")
	path, inFile := c.Settings.Lookup(BackendFile)
	if inFile && (!named || g.Origin != FromCommandLine) {
		held, err := heldURL(path)
		if err != nil {
			return Given{}, false, err
		}
		if named && g.Origin == fromEnvironment && g.Text != held.Text {
			return Given{}, false, &Fault{
				Code: CodeConfiguration, What: BackendFile, Why: "names another backend than " + g.Place,
				Hint: "unset one of the two: hosts that use different backends do not exclude each other",
			}
		}
		g, named = held, true
	}
	if !named {
		return Given{Text: defaultBackend}, false, nil
	}
	if _, err := ParseBackend(g.Text); err != nil {
		return Given{}, false, BadValue(g, err)
	}
	c.Console.KeepSecret(SecretsOf(g.Text)...)
	if g.exposed != "" && c.runs() {
		c.Console.Warn("everybody on this host can read the password in "+g.exposed, HideRemedy(g.exposed))
	}
	return g, true, nil
}

// HideRemedy says how to hide a password in a file that everybody can read. All users' jobs read the system's file, and end with 78 where
// they cannot.
func HideRemedy(path string) string {
	if path == SystemConfig {
		return "move the URL into a file for those who run jobs, and name it in their crontabs: " + BackendFile + "=FILE"
	}
	return "chmod o-r " + path
}

// heldURL reads the file that LEADERRUN_BACKEND_FILE names.
func heldURL(path string) (Given, error) {
	wrong := func(why, hint string, err error) (Given, error) {
		return Given{}, &Fault{Code: CodeConfiguration, What: BackendFile, Why: why, Hint: hint, Err: err}
	}
	const holds = "it names a file that holds the backend's URL"
	if path == "" {
		return wrong(ErrEmpty.Error(), "unset it; or "+holds, ErrEmpty)
	}
	content, info, err := ReadSmall(path)
	// What could be the address of a server has a password, perhaps: it is not shown.
	if strings.Contains(path, "://") || errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(path) && strings.Contains(path, "@") {
		return wrong("it is a URL, and not the name of a file", "LEADERRUN_BACKEND is the variable for a URL; this one"+strings.TrimPrefix(holds, "it"), nil)
	}
	if err != nil {
		hint := cmp.Or(ownership.Remedy(err), holds)
		if errors.Is(err, fs.ErrPermission) {
			hint = "make the file readable for this user"
		}
		return wrong(path+": "+Reason(err), hint, err)
	}
	text := strings.TrimSpace(string(content))
	switch {
	case text == "":
		return wrong(path+": "+ErrEmpty.Error(), holds, ErrEmpty)
	case strings.ContainsAny(text, "\r\n"):
		return wrong(path+": holds more than one line", holds+" and nothing else", nil)
	}
	held := Given{Text: text, Origin: fromEnvironment, Place: BackendFile}
	held.markExposed(path, info)
	held.again = func() (Given, error) { return heldURL(path) }
	return held, nil
}

// openDriver is where tests put a driver with a fault.
var openDriver = all.Open

// OpenStore opens the backend that the options name.
func (c *Call) OpenStore() (backends.Backend, error) {
	g, named, err := c.Backend()
	if err != nil {
		return nil, err
	}
	if !named {
		if err := c.unnamed(); err != nil {
			return nil, err
		}
	}
	store, err := openDriver(g.Text)
	if err == nil {
		c.followURL(store, g)
		return store, nil
	}
	f := BadValue(g, err)
	if !named {
		f.What = "the default backend, " + strings.TrimSuffix(defaultBackend, ":")
	}
	if hint := HintOf(err); hint != "" || g.Origin == FromCommandLine { // what any URL looks like is no remedy
		f.Hint = hint
	}
	if !named || ErrorCode(err) == CodeCredentials {
		f.Code = 0 // it is not about who named the backend
	}
	return nil, f
}

// followURL lets a store read its URL again where a file holds it, for a password that was changed there.
func (c *Call) followURL(store backends.Backend, g Given) {
	if g.again == nil {
		return
	}
	store.FollowURL(g.Text, func() (string, error) {
		now, err := g.again()
		if err != nil {
			return "", err
		}
		c.Console.KeepSecret(SecretsOf(now.Text)...)
		return now.Text, nil
	})
}

// runs says whether this call runs jobs: others do not repeat what such a one has told.
func (c *Call) runs() bool { return c.Cmd.Name == "run" || c.Cmd.Name == "cron" }

// unnamed is what follows when no backend was named anywhere. A setting that one host forgot must not go
// unseen; and inside a run, whose own backend does not reach the child, it would be another one than the
// outer run's without anybody having chosen it.
func (c *Call) unnamed() error {
	const remedy = "set --backend, LEADERRUN_BACKEND or `backend:` in " + SystemConfig
	_, job := c.Settings.Lookup(JobVariable)
	_, token := c.Settings.Lookup(TokenVariable)
	if job && token {
		return &Fault{
			Code: CodeConfiguration, What: "a run inside a run", Why: "no backend named",
			Hint: remedy + "; what the outer run uses is not handed down",
		}
	}
	if c.runs() {
		c.Console.Warn("no backend named: only runs on this host exclude each other", remedy+"; `backend: \"file:\"` there says that this is meant")
	}
	return nil
}

// CheckTTL compares the TTL with what the backend can keep.
func CheckTTL(ttl time.Duration, l backends.Limits) (hint string, err error) {
	switch {
	case l.MinTTL > 0 && ttl < l.MinTTL:
		return fmt.Sprintf("use --ttl %v or more", l.MinTTL), fmt.Errorf("the backend keeps a lease for at least %v", l.MinTTL)
	case l.MaxTTL > 0 && ttl > l.MaxTTL:
		return l.MaxHint, fmt.Errorf("a TTL of %v is longer than the backend allows: at most %v", ttl, l.MaxTTL)
	}
	return "", nil
}

// SecretsOf returns what of a backend URL no output may show: the URL as it stands, and its password, where
// it is long enough not to be a part of other words.
func SecretsOf(rawURL string) []string {
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found {
		return nil
	}
	var secrets []string
	add := func(text string) {
		if len(text) >= MinSecret {
			secrets = append(secrets, text)
			if plain, err := url.PathUnescape(text); err == nil && plain != text && len(plain) >= MinSecret {
				secrets = append(secrets, plain)
			}
		}
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if !isUser(scheme, rest[:at]) {
			secrets = append(secrets, rest[:at+1])
		}
		_, password, found := strings.Cut(rest[:at], ":")
		if plain, err := url.PathUnescape(rest[:at]); err == nil && !found { // u%3Ap for u:p
			_, password, _ = strings.Cut(plain, ":")
		}
		add(password)
	}
	if _, query, found := strings.Cut(rest, "?"); found {
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if strings.HasSuffix(name, "-file") { // its name is no secret, and the user has to see it
				continue
			}
			if strings.Contains(name, "pass") || strings.Contains(name, "token") || strings.Contains(name, "secret") {
				add(value)
			}
		}
	}
	return secrets
}

// isUser says whether what stands before the @ of a URL is a user without a password. Elsewhere than on PostgreSQL it may
// be a token that somebody wrote into the wrong place.
func isUser(scheme, text string) bool {
	switch strings.ToLower(scheme) {
	case "postgres", "postgresql":
		plain, err := url.PathUnescape(text)
		return err == nil && !strings.ContainsAny(plain, ":/?") && !strings.Contains(text, "@")
	}
	return false
}

// HoldsPassword says whether a backend URL has something in it that no output may show.
func HoldsPassword(rawURL string) bool {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if _, password, _ := strings.Cut(rest[:at], ":"); password != "" {
			return true
		}
		rest = rest[at+1:]
	}
	return len(SecretsOf(scheme+"://"+rest)) > 0
}
