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

const (
	backendFile    = prefix + "BACKEND_FILE"
	defaultBackend = "file:"
	minSecret      = 6 // a shorter one is hidden only where it stands in a URL
)

// backend finds the URL of the backend, and whether anybody named one.
func (c *call) backend() (g given, named bool, err error) {
	g, named = c.settings.find("backend")
	path, inFile := c.settings.lookup(backendFile)
	if inFile && (!named || g.origin != fromCommandLine) {
		held, err := heldURL(path)
		if err != nil {
			return given{}, false, err
		}
		if named && g.origin == fromEnvironment && g.text != held.text {
			return given{}, false, &fault{
				code: codeConfiguration, what: backendFile, why: "names another backend than " + g.place,
				hint: "unset one of the two: hosts that use different backends do not exclude each other",
			}
		}
		g, named = held, true
	}
	if !named {
		return given{text: defaultBackend}, false, nil
	}
	if _, err := parseBackend(g.text); err != nil {
		return given{}, false, badValue(g, err)
	}
	c.console.keepSecret(secretsOf(g.text)...)
	if g.exposed != "" && c.runs() {
		c.console.warn("everybody on this host can read the password in "+g.exposed, "chmod o-r "+g.exposed)
	}
	return g, true, nil
}

// heldURL reads the file that LEADERRUN_BACKEND_FILE names.
func heldURL(path string) (given, error) {
	wrong := func(why, hint string, err error) (given, error) {
		return given{}, &fault{code: codeConfiguration, what: backendFile, why: why, hint: hint, err: err}
	}
	const holds = "it names a file that holds the backend's URL"
	if path == "" {
		return wrong(errEmpty.Error(), "unset it; or "+holds, errEmpty)
	}
	content, info, err := readSmall(path)
	// What could be the address of a server has a password, perhaps: it is not shown.
	if strings.Contains(path, "://") || errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(path) && strings.Contains(path, "@") {
		return wrong("it is a URL, and not the name of a file", "LEADERRUN_BACKEND is the variable for a URL; this one"+strings.TrimPrefix(holds, "it"), nil)
	}
	if err != nil {
		hint := cmp.Or(ownership.Remedy(err), holds)
		if errors.Is(err, fs.ErrPermission) {
			hint = "make the file readable for this user"
		}
		return wrong(path+": "+reason(err), hint, err)
	}
	text := strings.TrimSpace(string(content))
	switch {
	case text == "":
		return wrong(path+": "+errEmpty.Error(), holds, errEmpty)
	case strings.ContainsAny(text, "\r\n"):
		return wrong(path+": holds more than one line", holds+" and nothing else", nil)
	}
	held := given{text: text, origin: fromEnvironment, place: backendFile}
	held.markExposed(path, info)
	held.again = func() (given, error) { return heldURL(path) }
	return held, nil
}

// openDriver is where tests put a driver with a fault.
var openDriver = all.Open

// openStore opens the backend that the options name.
func (c *call) openStore() (backends.Backend, error) {
	g, named, err := c.backend()
	if err != nil {
		return nil, err
	}
	if !named {
		if err := c.unnamed(); err != nil {
			return nil, err
		}
	}
	store, err := openDriver(g.text)
	if err == nil {
		c.followURL(store, g)
		return store, nil
	}
	f := badValue(g, err)
	if !named {
		f.what = "the default backend, " + strings.TrimSuffix(defaultBackend, ":")
	}
	if hint := hintOf(err); hint != "" || g.origin == fromCommandLine { // what any URL looks like is no remedy
		f.hint = hint
	}
	if !named || errorCode(err) == codeCredentials {
		f.code = 0 // it is not about who named the backend
	}
	return nil, f
}

// followURL lets a store read its URL again where a file holds it, for a password that was changed there.
func (c *call) followURL(store backends.Backend, g given) {
	if g.again == nil {
		return
	}
	store.FollowURL(g.text, func() (string, error) {
		now, err := g.again()
		if err != nil {
			return "", err
		}
		c.console.keepSecret(secretsOf(now.text)...)
		return now.text, nil
	})
}

// runs says whether this call runs jobs: others do not repeat what such a one has told.
func (c *call) runs() bool { return c.cmd.name == "run" || c.cmd.name == "cron" }

// unnamed is what follows when no backend was named anywhere. A setting that one host forgot must not go
// unseen; and inside a run, whose own backend does not reach the child, it would be another one than the
// outer run's without anybody having chosen it.
func (c *call) unnamed() error {
	const remedy = "set --backend, LEADERRUN_BACKEND or `backend:` in " + systemConfig
	_, job := c.settings.lookup(jobVariable)
	_, token := c.settings.lookup(tokenVariable)
	if job && token {
		return &fault{
			code: codeConfiguration, what: "a run inside a run", why: "no backend named",
			hint: remedy + "; what the outer run uses is not handed down",
		}
	}
	if c.runs() {
		c.console.warn("no backend named: only runs on this host exclude each other", remedy+"; `backend: \"file:\"` there says that this is meant")
	}
	return nil
}

// checkTTL compares the TTL with what the backend can keep.
func checkTTL(ttl time.Duration, l backends.Limits) (hint string, err error) {
	switch {
	case l.MinTTL > 0 && ttl < l.MinTTL:
		return fmt.Sprintf("use --ttl %v or more", l.MinTTL), fmt.Errorf("the backend keeps a lease for at least %v", l.MinTTL)
	case l.MaxTTL > 0 && ttl > l.MaxTTL:
		return l.MaxHint, fmt.Errorf("a TTL of %v is longer than the backend allows: at most %v", ttl, l.MaxTTL)
	}
	return "", nil
}

// secretsOf returns what of a backend URL no output may show: the URL as it stands, and its password, where
// it is long enough not to be a part of other words.
func secretsOf(rawURL string) []string {
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found {
		return nil
	}
	var secrets []string
	add := func(text string) {
		if len(text) >= minSecret {
			secrets = append(secrets, text)
			if plain, err := url.PathUnescape(text); err == nil && plain != text && len(plain) >= minSecret {
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
