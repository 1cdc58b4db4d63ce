// Package credentialplugin starts the programs that a kubeconfig names under exec: aws, gke-gcloud-auth-plugin,
// kubelogin and their like print a credential, which is kept until it expires
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
//
// It waits for a plugin by the end of its output, and then for its exit status, which may be gone: who runs a job
// reaps every child of the process, and may have been first.
package credentialplugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// The versions of the protocol that are spoken.
const (
	V1      = "client.authentication.k8s.io/v1"
	V1Beta1 = "client.authentication.k8s.io/v1beta1"
)

// Longest is how long a plugin may take.
const Longest = 30 * time.Second

const (
	lingers     = time.Second      // how long one that was killed is waited for, and a descendant that holds its output
	mostText    = 1 << 20          // of output
	mostUnended = 3                // plugins that do not end although they were killed
	shown       = 200              // of what a plugin says of its failure
	early       = 10 * time.Second // how long before it expires a credential is shown no more
	ahead       = early + Longest  // how long before it expires the plugin is started for another
)

// Plugin says what is started.
type Plugin struct {
	APIVersion  string // V1 or V1Beta1
	Command     string // a path, or a name to be looked up in $PATH
	Args        []string
	Env         []string        // NAME=VALUE, in addition to ours
	Cluster     json.RawMessage // what the plugin is told of the cluster; nil: nothing
	InstallHint string          // what to do where there is no such program
}

var (
	// ErrMissing says that there is no such program, or that it may not be run.
	ErrMissing = errors.New("the credential plugin cannot be started")
	// ErrAtWork says that there is no credential yet: the plugin goes on, for those who ask later.
	ErrAtWork = errors.New("is still at work")
)

// Credential is what a plugin prints.
type Credential struct {
	Token       string           // "": none
	Certificate *tls.Certificate // nil: none
	Expires     time.Time        // zero: when the server refuses it
}

// Source starts a plugin when a credential is needed that it does not have, and ahead of that, when the one that it has
// will soon expire. It is safe for concurrent use; there is one plugin at a time, beside such as cannot be killed.
//
// A plugin is not of the request that needs it: one that takes longer than a request may is there for the next one. Each
// request starting its own and killing it would never have a credential.
type Source struct {
	plugin Plugin
	life   context.Context // of plugins; ends with Close
	end    context.CancelFunc

	mu   sync.Mutex
	last *Credential // nil: none
	run  *run        // at work, or failed and nobody has been told yet; nil: neither

	unended atomic.Int32 // plugins that have been started and have not ended
}

// run is a plugin at work.
type run struct {
	done  chan struct{} // closed when it has ended
	ended time.Time
	last  *Credential
	err   error
}

// New returns a source. It starts nothing.
func New(p Plugin) *Source {
	life, end := context.WithCancel(context.Background())
	return &Source{plugin: p, life: life, end: end}
}

// Close kills a plugin that is at work, and waits for its end: for about a second, if that is one that cannot be killed.
func (s *Source) Close() error {
	s.end()
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r != nil {
		<-r.done
	}
	return nil
}

// Get returns a credential. When ctx ends, a plugin that is at work goes on for those who ask later. No error shows what
// it has printed on its standard output.
func (s *Source) Get(ctx context.Context) (*Credential, error) {
	for {
		c, r := s.known()
		if c != nil {
			return c, nil
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("credential plugin %s %w: %w", s.plugin.Command, ErrAtWork, context.Cause(ctx))
		}
		if c, err := s.take(r); c != nil || err != nil {
			return c, err
		}
	}
}

// known returns a credential that can be shown, or else a plugin that is at work.
func (s *Source) known() (*Credential, *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.lasts(ahead) {
		return s.last, nil
	}
	usable := s.last.lasts(early)
	if r := s.run; r != nil && r.isOver() && (usable || time.Since(r.ended) > Longest) { // too old to be told of
		s.run = nil
	}
	if s.run == nil {
		s.run = &run{done: make(chan struct{})}
		begun := s.run
		panics.Go(func() { s.work(begun) })
	}
	if usable {
		return s.last, nil
	}
	return nil, s.run
}

// work runs the plugin.
func (s *Source) work(r *run) {
	c, err := s.start()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.last, r.err, r.ended = c, err, time.Now()
	if err == nil {
		s.last, s.run = c, nil
	}
	close(r.done)
}

// start runs the plugin, unless too many before it have not ended: each of them keeps a process and a thread.
func (s *Source) start() (*Credential, error) {
	if s.unended.Load() >= mostUnended {
		return nil, s.plugin.failed("%d of it do not end, and no other is started", mostUnended)
	}
	return s.plugin.run(s.life, &s.unended)
}

// take returns what a plugin that has ended has brought. A failure is told to those who waited, or to who comes next.
func (s *Source) take(r *run) (*Credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == r {
		s.run = nil
	}
	return r.last, r.err
}

func (r *run) isOver() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Forget makes the next Get start the plugin, if this is the credential that Get would return.
func (s *Source) Forget(token string, certificate *tls.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.Token == token && s.last.Certificate == certificate {
		s.last = nil
	}
}

// lasts says whether there is a credential, and for so long.
func (c *Credential) lasts(d time.Duration) bool {
	return c != nil && (c.Expires.IsZero() || time.Until(c.Expires) >= d)
}

func (p *Plugin) failed(format string, args ...any) error {
	return fmt.Errorf("credential plugin %s: %w", p.Command, fmt.Errorf(format, args...))
}

// run is ask, and ends about a second after ctx at the latest: a plugin that has become another user is not ours to kill,
// and none dies in a system call that hangs. Such a one is waited for behind this, whenever it ends.
// unended counts plugins that have not ended, those too.
func (p *Plugin) run(ctx context.Context, unended *atomic.Int32) (*Credential, error) {
	ctx, cancel := context.WithTimeout(ctx, Longest)
	defer cancel()
	type answer struct {
		credential *Credential
		err        error
	}
	answers := make(chan answer, 1)
	unended.Add(1)
	panics.Go(func() {
		defer unended.Add(-1)
		// The kernel's signal follows the thread that started the plugin (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c, err := p.ask(ctx)
		answers <- answer{c, err}
	})
	select {
	case a := <-answers:
		return a.credential, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.credential, a.err
	case <-time.After(lingers):
		return nil, p.failed("it does not end: %w", context.Cause(ctx))
	}
}

// ask starts the plugin and reads what it prints. It returns when the plugin has ended, and been waited for.
func (p *Plugin) ask(ctx context.Context) (*Credential, error) {
	info, err := p.info()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.Command, p.Args...)
	cmd.Env = append(append(os.Environ(), p.Env...), "KUBERNETES_EXEC_INFO="+info)
	stdout, stderr := &limited{most: mostText}, &limited{most: mostText}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = lingers
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error {
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:forbidigo // a plugin is no job, and ends before there is an answer
	}
	if err := cmd.Start(); err != nil {
		return nil, p.notStarted(err)
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, p.failed("%w", context.Cause(ctx))
	case err == nil, errors.Is(err, exec.ErrWaitDelay), errors.Is(err, syscall.ECHILD): // what it printed tells
	default:
		return nil, p.failed("%w%s", err, hint(stderr.lastLine()))
	}
	c, bad := p.read(stdout.text.Bytes())
	if bad != nil && err != nil {
		bad = fmt.Errorf("%w (%w)", bad, err)
	}
	if bad != nil {
		return nil, p.failed("%w%s", bad, hint(stderr.lastLine()))
	}
	return c, nil
}

// notStarted tells a program that is not there, or is none, from a system that cannot start it now: it has too many processes
// or open files, too little memory, or the program is just being replaced.
func (p *Plugin) notStarted(err error) error {
	for _, missing := range []error{exec.ErrNotFound, exec.ErrDot, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENOEXEC} {
		if errors.Is(err, missing) {
			return p.failed("%w (%w)%s", ErrMissing, err, hint(p.InstallHint))
		}
	}
	return p.failed("%w", err)
}

func hint(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// info is what a plugin is told.
func (p *Plugin) info() (string, error) {
	spec := map[string]any{"interactive": false}
	if p.Cluster != nil {
		spec["cluster"] = p.Cluster
	}
	text, err := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": spec})
	return string(text), err
}

// read reads what a plugin has printed. Its errors show nothing of it.
func (p *Plugin) read(text []byte) (*Credential, error) {
	var printed struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Status     struct {
			Token       string    `json:"token"`
			Certificate string    `json:"clientCertificateData"`
			Key         string    `json:"clientKeyData"`
			Expires     time.Time `json:"expirationTimestamp"`
		} `json:"status"`
	}
	if err := json.Unmarshal(text, &printed); err != nil || printed.Kind != "ExecCredential" {
		return nil, errors.New("it has printed no ExecCredential")
	}
	if printed.APIVersion != p.APIVersion {
		return nil, fmt.Errorf("it has printed another version than the %s that it was asked for", p.APIVersion)
	}
	s := printed.Status
	c := &Credential{Token: s.Token, Expires: s.Expires}
	if s.Certificate != "" || s.Key != "" {
		pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
		if err != nil {
			return nil, errors.New("its certificate and key do not fit or cannot be read")
		}
		c.Certificate = &pair
	}
	if cmp.Or(c.Token, s.Certificate) == "" {
		return nil, errors.New("it has printed neither a token nor a certificate")
	}
	return c, nil
}

// limited keeps the first bytes of an output. The rest is lost, so that who writes it does not wait.
type limited struct {
	text bytes.Buffer
	most int
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	l.text.Write(b[:min(len(b), l.most-l.text.Len())])
	return len(b), nil
}

// lastLine is where programs say why they failed.
func (l *limited) lastLine() string {
	text := strings.TrimSpace(l.text.String())
	text = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(text) > shown {
		text = text[:shown] + "…"
	}
	return text
}
