package servers

import (
	"bytes"
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

// place is where a server runs. Its zero value is the loopback interface.
type place struct {
	address string
	netns   string      // a network namespace
	tls     *tls.Config // of a client; nil: no TLS
}

func (p place) host() string {
	if p.address == "" {
		return "127.0.0.1"
	}
	return p.address
}

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
	if p.netns == "" {
		return words
	}
	return append([]string{"ip", "netns", "exec", p.netns}, words...)
}

// ask sends a request to a server from where it runs, and returns the status and the body of the answer.
func (p place) ask(timeout time.Duration, method, url string, header http.Header, body string) (int, string, error) {
	// A connection of its own for each: one that is kept would be one to a server before its restart.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: p.tls, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialFrom(ctx, p.netns, network, addr)
		},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(q.Header, header)
	r, err := client.Do(q)
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
	if err == nil && code != http.StatusOK {
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
