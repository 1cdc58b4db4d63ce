package backendurl

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/leaderrun/leaderrun/backends"
)

// Login is the user and password of a URL. Others may take their place while connections are opened (see URL.Rekey). nil is nobody.
// Its methods are safe for concurrent use.
type Login struct {
	mu             sync.Mutex
	user, password string
	former         []string // the passwords before, which no message may show either
}

// NewLogin returns the login of a user.
func NewLogin(user, password string) *Login { return &Login{user: user, password: password} }

// Get returns the user and the password for a connection that is opened now.
func (l *Login) Get() (user, password string) {
	if l == nil {
		return "", ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user, l.password
}

// User returns the user; "": none.
func (l *Login) User() string {
	user, _ := l.Get()
	return user
}

// Password returns the password; "": none.
func (l *Login) Password() string {
	_, password := l.Get()
	return password
}

func (l *Login) set(user, password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.password != password {
		l.former = append(l.former, l.password)
	}
	l.user, l.password = user, password
}

// Hide takes the passwords out of what a server says.
func (l *Login) Hide(text string) string {
	if l == nil {
		return text
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Hide(text, append(slices.Clone(l.former), l.password)...)
}

// Rekey takes the user and password of another URL, for the connections that are opened from now on. All else of the two URLs must be
// the same: what is open stays the same store. After an error, which shows no password, nothing has changed.
func (u *URL) Rekey(raw string) error {
	other, err := parse(raw, u.form)
	if err != nil {
		return err
	}
	if other.place != u.place {
		return backends.Misconfigured("start leaderrun anew where another store is meant", "the URL names another store, or other options: only its user and password may change")
	}
	u.Login.set(other.Login.Get())
	return nil
}

// What may be a part of other words by chance: what is shorter than leastSecret, and letters alone up to longestWord.
const (
	leastSecret = 6
	longestWord = 12
)

// Hide writes xxxxx in the place of secrets. One that may be a part of other words is hidden only where it stands alone: a word with
// a hole would tell it.
func Hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			text = pattern(secret).ReplaceAllLiteralString(text, redacted)
		}
	}
	return text
}

func pattern(secret string) *regexp.Regexp {
	alone := len(secret) < leastSecret || len(secret) <= longestWord && letters.MatchString(secret)
	quoted := regexp.QuoteMeta(secret)
	if alone && beginsWord.MatchString(secret) {
		quoted = `\b` + quoted
	}
	if alone && endsWord.MatchString(secret) {
		quoted += `\b`
	}
	return regexp.MustCompile(quoted)
}

var (
	letters    = regexp.MustCompile(`^\pL+$`)
	beginsWord = regexp.MustCompile(`^\w`)
	endsWord   = regexp.MustCompile(`\w$`)
)
