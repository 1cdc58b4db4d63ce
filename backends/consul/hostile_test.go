package consul

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// unknown says that all that a driver was asked has an outcome that is unknown.
func unknown(t *testing.T, name string, errs map[string]error) {
	t.Helper()
	for step, err := range errs {
		if err == nil || backends.IsAnswer(err) || len(err.Error()) > 2000 {
			t.Errorf("%s: %s: %.300v, want an outcome that is unknown, in a few words", name, step, err)
		}
	}
}

// hostile is an agent that answers questions for keys, for sessions and transactions with these bodies. An empty one is that of an
// agent that grants and keeps everything.
type hostile struct{ keys, create, renew, txn string }

func (h hostile) driver(t *testing.T) *driver {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "9")
		_, _ = io.WriteString(w, h.answer(r.URL.Path))
	}))
	t.Cleanup(web.Close)
	return open(t, "consul://"+strings.TrimPrefix(web.URL, "http://"))
}

func (h hostile) answer(path string) string {
	switch path = strings.TrimPrefix(path, "/v1/"); {
	case strings.HasPrefix(path, "kv/"):
		return or(h.keys, "[]")
	case strings.HasPrefix(path, "session/create"):
		return or(h.create, `{"ID":"s"}`)
	case strings.HasPrefix(path, "session/renew"):
		return or(h.renew, `[{"ID":"s"}]`)
	default:
		return or(h.txn, `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},{"KV":{"Key":"leaderrun/job/lock","ModifyIndex":8,"Session":"s"}}]}`)
	}
}

func or(text, byDefault string) string {
	if text == "" {
		return byDefault
	}
	return text
}

// TestHollowAnswers: hazard: an answer with null, or nothing, in the place of an object ends the program, or is taken for a grant.
func TestHollowAnswers(t *testing.T) {
	t.Parallel()
	steps := suite.On(t)
	steps.Acquire(hostile{}.driver(t), claim("job", "a", time.Minute))
	for name, h := range map[string]hostile{
		"keys: null in a list":         {keys: `[null]`},
		"keys: no list":                {keys: `{}`},
		"keys: a record of no version": {keys: `[{"Key":"leaderrun/job/record","Value":"e30="}]`},
		"keys: a lock of no version":   {keys: `[{"Key":"leaderrun/job/lock","Value":null}]`},
		"keys: the same key twice":     {keys: `[{"Key":"leaderrun/job/lock","ModifyIndex":4},{"Key":"leaderrun/job/lock","ModifyIndex":5}]`},
		"session: null":                {create: `null`},
		"transaction: null":            {txn: `null`},
		"transaction: null in a list":  {txn: `{"Results":[null],"Errors":[null]}`},
		"transaction: null for a key":  {txn: `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},null]}`},
		"transaction: a lock of none":  {txn: `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},{"KV":{"Key":"leaderrun/job/lock","Session":"s"}}]}`},
		"transaction: another's lock":  {txn: `{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":8}},{"KV":{"Key":"leaderrun/job/lock","ModifyIndex":8,"Session":"x"}}]}`},
	} {
		d := h.driver(t)
		_, err := d.Acquire(within(t, suite.Patience), claim("job", "a", time.Minute))
		unknown(t, name, map[string]error{"Acquire": err})
	}
	for _, keys := range []string{"[null]", `[""]`, `["other/job/record"]`, `["leaderrun/job/record",null]`, "{}"} {
		if jobs, err := (hostile{keys: keys}).driver(t).Jobs(within(t, suite.Patience)); err == nil || backends.IsAnswer(err) {
			t.Errorf("%s is a list of jobs: %q, %v", keys, jobs, err)
		}
	}
	for name, h := range map[string]hostile{"renewal: null": {renew: `[null]`}, "renewal: none": {renew: `[]`}, "renewal: no list": {renew: `{}`}} {
		agent := hostile{}
		d := agent.driver(t)
		g := steps.Acquire(d, claim("job", "a", time.Minute))
		*d = *h.driver(t)
		_, err := d.Renew(within(t, 300*time.Millisecond), g)
		if err == nil {
			t.Errorf("%s: renewed", name)
		}
	}
	if err := rolledBack(api.TxnErrors{nil, {}}); !errors.Is(err, errAnswer) {
		t.Errorf("rolled back for no reason: %v", err)
	}
}

// TestLargeAnswers: hazard: one answer takes all memory, by its length or by what it becomes; one that breaks the store's bounds a
// hundred times over is bad enough.
func TestLargeAnswers(t *testing.T) { // not parallel: it measures what is allocated
	const mb = 1 << 20
	long := strings.Repeat("x", 64*mb)
	elements := "[" + strings.Repeat("{},", 19*mb/10/3) + "{}]"
	for name, h := range map[string]hostile{
		"a long key":        {keys: `[{"Key":"` + long + `"}]`},
		"many keys":         {keys: elements},
		"many sessions":     {renew: elements},
		"a long session":    {create: `{"ID":"` + long + `"}`},
		"many results":      {txn: `{"Results":` + elements + `}`},
		"deep":              {keys: strings.Repeat("[", mb)},
		"a very long error": {txn: `{"Results":[{"Check":{"Definition":{"Interval":"` + strings.Repeat("x", mb) + `"}}}]}`},
	} {
		d := h.driver(t)
		var err error
		took := suite.Allocated(func() { _, err = d.Acquire(within(t, suite.Patience), claim("job", "a", time.Minute)) }) / mb
		if h.renew == "" {
			unknown(t, name, map[string]error{"Acquire": err})
		}
		if took > 64 {
			t.Errorf("%s: %d MB were allocated", name, took)
		}
	}
	d := hostile{keys: `["` + long + `"]`}.driver(t)
	var err error
	if took := suite.Allocated(func() { _, err = d.Jobs(within(t, suite.Patience)) }) / mb; err == nil || took > 64 {
		t.Errorf("Jobs: %.100v, %d MB were allocated", err, took)
	}
}
