package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// What a server says in Error.Reason (k8s.io/apimachinery/pkg/apis/meta/v1, StatusReason).
const (
	AlreadyExists = "AlreadyExists"
	Conflict      = "Conflict"
	Expired       = "Expired"
	Gone          = "Gone"
	Invalid       = "Invalid"
	NotFound      = "NotFound"
)

// Error is a reply that reports no success.
type Error struct {
	Host    string
	Code    int    // of HTTP
	Reason  string // "": the reply is not Kubernetes'
	Message string
	Kind    string // of the object that it is about: "leases"
	Passing bool   // of 401: the server has let this client in before, and refuses it for less than a minute
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = http.StatusText(e.Code)
	}
	return fmt.Sprintf("%s: %d: %s", e.Host, e.Code, text)
}

// ProtocolError says that what answers does not speak Kubernetes' API, or that a reply was cut.
type ProtocolError struct {
	Err    error
	Spoken bool // this client was answered by an API server before
}

func (e *ProtocolError) Error() string { return "the reply is not Kubernetes': " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }

// foreign is the error of a reply that is none of Kubernetes'.
func (c *Client) foreign(err error) error {
	return c.failed(&ProtocolError{Err: err, Spoken: c.spoken.Load()})
}

// Says tells whether an error is a server's, for this reason.
func Says(err error, reason string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == reason
}

// status is how Kubernetes reports a failure.
type status struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Kind string `json:"kind"`
	} `json:"details"`
}

// longestText is how much is shown of a reply that is not Kubernetes'.
const longestText = 200

// refused reads a reply that reports no success. It returns an *Error, unless the reply cannot be read.
func (c *Client) refused(reply *http.Response) error {
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return c.failed(err)
	}
	return c.refusal(reply.StatusCode, body)
}

// error makes an error of what Kubernetes says.
func (s *status) error(host string, code int) *Error {
	return &Error{Host: host, Code: code, Reason: s.Reason, Message: httplimit.Brief(s.Message), Kind: s.Details.Kind}
}

// refusal makes an error of a reply.
func (c *Client) refusal(code int, body []byte) *Error {
	passing := code == http.StatusUnauthorized && c.door.mayOpen()
	var s status
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" {
		c.spoken.Store(true)
		e := s.error(c.host, code)
		e.Passing = passing
		return e
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if len(text) > longestText {
		text = text[:longestText] + "…"
	}
	return &Error{Host: c.host, Code: code, Message: text, Passing: passing}
}
