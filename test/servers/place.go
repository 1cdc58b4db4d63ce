package servers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"
)

// statusTimeout is how long a server may take to say how it is. One that is frozen or cut off never does, and the
// others are waiting to be asked again.
const statusTimeout = time.Second

// At is where a server runs, and where it keeps its data.
type At struct {
	Address string   // "": 127.0.0.1
	Netns   string   // the network namespace in which it runs; "": where the test does
	Dir     string   // where its data is, which becomes the server's; "": a folder of its own
	Env     []string // more of its environment
}

// place is how a server is reached. Its zero value is the loopback interface.
type place struct {
	At
	tls *tls.Config // of a client; nil: no TLS
}

func (p place) host() string { return cmp.Or(p.Address, "127.0.0.1") }

func (p place) addr(port int) string { return net.JoinHostPort(p.host(), fmt.Sprint(port)) }

// url returns a URL whose scheme ends in s with TLS: http and https, etcd and etcds.
func (p place) url(scheme string, addrs ...string) string {
	if p.tls != nil {
		scheme += "s"
	}
	return scheme + "://" + strings.Join(addrs, ",")
}

// words returns the words that run a program there. It keeps the process ID.
func (p place) words(words ...string) []string {
	if p.Netns == "" {
		return words
	}
	return append([]string{"ip", "netns", "exec", p.Netns}, words...)
}

// dial connects from where the server runs.
func (p place) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	dial := func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return err
	}
	if p.Netns != "" {
		return conn, Inside(p.Netns, dial)
	}
	return conn, dial()
}

// client makes a connection for each request: one that is kept would be one to a server before its restart.
func (p place) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: p.tls, DisableKeepAlives: true, DialContext: p.dial}}
}

// ask sends a request to a server from where it runs, and returns the status and the body of the answer.
func (p place) ask(timeout time.Duration, method, url string, header http.Header, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(q.Header, header)
	r, err := p.client().Do(q)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// answer is ask for an answer that says that it went well.
func (p place) answer(timeout time.Duration, method, url string, header http.Header, body string) (string, error) {
	code, text, err := p.ask(timeout, method, url, header, body)
	if err == nil && code/100 != 2 {
		err = fmt.Errorf("%s %s: %d: %s", method, url, code, strings.TrimSpace(text))
	}
	return text, err
}

func decode(text string, err error, to any) error {
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}
