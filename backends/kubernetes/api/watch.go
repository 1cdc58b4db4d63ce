package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// errNotLease says that the server answered something else than it was asked.
var errNotLease = errors.New("the reply is not about a Lease")

// The types of an Event.
const (
	Added    = "ADDED" // also: was there when the watch began
	Modified = "MODIFIED"
	Deleted  = "DELETED"
)

// Event is a change of a Lease. Of one that was deleted it shows what was last there.
type Event struct {
	Type  string
	Lease *Lease
}

// Watch calls started when the watch stands, and f for the Lease as it is then, if there is one, and for each change,
// until ctx ends, the connection breaks, or the server ends the watch, as it does after the given time at the latest. It
// says which, and has a connection of its own.
func (c *Client) Watch(ctx context.Context, name string, longest time.Duration, started func(), f func(Event)) error {
	ctx, cancel := context.WithTimeout(ctx, longest+requestTimeout) // a server that was cut off ends nothing
	defer cancel()
	reply, err := c.send(ctx, question{method: http.MethodGet, path: c.leases(), params: url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {strconv.Itoa(int(longest / time.Second))},
	}})
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		body, err := readAll(reply.Body)
		if err != nil {
			return c.failed(err)
		}
		return c.refusal(reply.StatusCode, body)
	}
	started()
	for events := json.NewDecoder(reply.Body); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&e); err != nil {
			return c.failed(err)
		}
		switch e.Type {
		case Added, Modified, Deleted:
			l := new(Lease)
			if err := json.Unmarshal(e.Object, l); err != nil {
				return c.failed(fmt.Errorf("watch: %w", err))
			}
			f(Event{Type: e.Type, Lease: l})
		case "ERROR":
			var s status
			_ = json.Unmarshal(e.Object, &s)
			return &Error{Host: c.host, Code: s.Code, Reason: s.Reason, Message: s.Message, Kind: s.Details.Kind}
		}
	}
}
