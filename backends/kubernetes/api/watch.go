package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/httplimit"
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
	ctx, cancel := context.WithTimeout(httplimit.Watch(ctx), longest+requestTimeout) // a server that was cut off ends nothing
	defer cancel()
	reply, err := c.send(ctx, question{method: http.MethodGet, path: c.leases(), params: url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {strconv.Itoa(int(longest / time.Second))},
	}})
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return c.refused(reply)
	}
	started()
	for lines := bufio.NewReader(reply.Body); ; { // one for each event
		line, end := lines.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return c.failed(end)
		}
		e, err := c.event(line)
		if err != nil {
			return err
		}
		nextMessage(reply.Body)
		if e.Lease != nil {
			f(e)
		}
		if end != nil {
			return c.failed(end)
		}
	}
}

// nextMessage says of a body that a part of it is done with, and another one begins: each may be of a length.
func nextMessage(body io.Reader) {
	if b, ok := body.(*httplimit.Body); ok {
		b.Next()
	}
}

// event reads an event; without a Lease: it is of no interest.
func (c *Client) event(line []byte) (e Event, err error) {
	var said struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return e, nil
	}
	if err := decode(line, &said); err != nil {
		return e, c.failed(fmt.Errorf("watch: %w", err))
	}
	switch said.Type {
	case Added, Modified, Deleted:
		l := new(Lease)
		if err := json.Unmarshal(said.Object, l); err != nil {
			return e, c.failed(fmt.Errorf("watch: %w", err))
		}
		if !l.isNamed() || l.ResourceVersion == "" {
			return e, c.failed(fmt.Errorf("watch: %w", errNotLease))
		}
		return Event{Type: said.Type, Lease: l}, nil
	case "ERROR":
		var s status
		_ = json.Unmarshal(said.Object, &s)
		return e, s.error(c.host, s.Code)
	}
	return e, nil
}
