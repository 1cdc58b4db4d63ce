package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long what must come may take on a busy machine.
var patience = waits.Patience

// reflection is how long the checker may think about one history. All but those with hardly an answer in them take it
// milliseconds.
const reflection = 10 * time.Second

// history is what was asked and answered about one job. Clients add to it at the same time.
type history struct {
	job     string
	expires bool // leases have a TTL; else they end when their holder dies
	lasting bool // and are there until somebody takes them, also after that

	mu         sync.Mutex
	holders    map[string]int
	operations []porcupine.Operation
}

func newHistory(job string, w world) *history {
	return &history{job: job, expires: w.expires, lasting: w.lasting, holders: map[string]int{}}
}

// number returns the number of a holder.
func (h *history) number(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holders[id] == 0 {
		h.holders[id] = len(h.holders) + 1
	}
	return h.holders[id]
}

// note adds an operation.
func (h *history) note(client int, q request, r reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: q, Output: r})
}

// claim and grant translate what is asked of a driver.
func (h *history) claim(c backends.Claim) request {
	q := request{
		step: claims, holder: h.number(c.Holder.ID), ttl: c.TTL, tick: c.Tick, parts: c.Parts, policy: c.OnLost, most: c.MaxAttempts,
	}
	if !h.expires {
		q.ttl = 0
	}
	return q
}

func (h *history) grant(what step, g backends.Grant) request {
	q := request{step: what, holder: h.number(g.Claim.Holder.ID), token: g.Token, ttl: g.TTL}
	if !h.expires {
		q.ttl = 0
	}
	return q
}

// answer translates what a driver says to a claim.
func (h *history) answer(g backends.Grant, err error) reply {
	if err == nil {
		r := reply{verdict: backends.Granted, token: g.Token, ttl: g.TTL, tick: g.Tick, attempt: g.Attempt}
		if !h.expires {
			r.ttl = 0
		}
		return r
	}
	if refusal, refused := errors.AsType[*backends.Refusal](err); refused {
		r := reply{verdict: refusal.Verdict, token: refusal.Token, parts: refusal.Parts}
		if refusal.Verdict == backends.Held {
			r.holder = h.number(refusal.Holder.ID)
		}
		return r
	}
	return reply{verdict: unknown}
}

func answered(err error) reply {
	switch {
	case err == nil:
		return reply{verdict: ok}
	case errors.Is(err, backends.ErrLost):
		return reply{verdict: gone}
	}
	return reply{verdict: unknown}
}

// split returns the operations whose outcome is known, with their intervals, and the requests of the others, which may
// take effect at any time after their calls. Of several that would have the same effect the first stands for all, and
// a renewal obliges nobody to anything.
func (h *history) split() (known []porcupine.Operation, flights []request) {
	for _, o := range h.operations {
		q, r := parts(o)
		if r.verdict != unknown {
			o.Call, o.Return = int64(q.call), int64(r.at)
			known = append(known, o)
			continue
		}
		again := slices.ContainsFunc(flights, func(f request) bool {
			f.call = q.call
			return f == q
		})
		if q.step != renews && !again { // clients ask one thing after the other, and are noted in order
			flights = append(flights, q)
		}
	}
	return known, flights
}

func parts(o porcupine.Operation) (request, reply) {
	return o.Input.(request), o.Output.(reply)
}

// judgement is what the checker says of a history. Where that is Illegal, it comes with what was understood.
type judgement struct {
	verdict porcupine.CheckResult
	picture string                // the path of a page that shows it
	longest []porcupine.Operation // the longest order of steps that one lease could have taken
	rest    []porcupine.Operation // what comes after that in no order
	flights []request             // what may have come about or not
}

func judge(operations []porcupine.Operation, flights []request, lasting bool) judgement {
	model := newModel(flights, lasting)
	j := judgement{flights: flights, verdict: porcupine.CheckOperationsTimeout(model, operations, reflection)}
	if j.verdict != porcupine.Illegal {
		return j
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations, patience)
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(j.longest) {
			j.longest = order
		}
	}
	for _, o := range operations {
		if !slices.Contains(j.longest, o) {
			j.rest = append(j.rest, o)
		}
	}
	var notes []porcupine.Annotation
	for _, f := range flights {
		notes = append(notes, porcupine.Annotation{Tag: "outcome unknown", Start: int64(f.call), Description: f.String()})
	}
	info.AddAnnotations(notes)
	file, err := os.CreateTemp("", "leaderrun-history-*.html")
	if err == nil {
		err = errors.Join(porcupine.Visualize(model, info, file), file.Close())
	}
	if j.picture = "no picture"; err == nil {
		j.picture = file.Name()
	}
	return j
}

// String lists the operations, for who has no browser.
func (j judgement) String() string {
	var s strings.Builder
	list := func(title string, operations []porcupine.Operation) {
		fmt.Fprintf(&s, "%s:\n", title)
		for _, o := range operations {
			q, r := parts(o)
			fmt.Fprintf(&s, "%.3f %.3f  client %d  %v → %v\n", seconds(q.call), seconds(r.at), o.ClientId, q, r)
		}
	}
	list("the longest order that one lease could have", j.longest)
	list("what does not follow", j.rest)
	s.WriteString("what may have come about at any later time:\n")
	for _, f := range j.flights {
		fmt.Fprintf(&s, "%.3f  %v\n", seconds(f.call), f)
	}
	return s.String()
}

// total counts what was seen of one store.
type total struct {
	mu         sync.Mutex
	histories  int
	unjudged   int // of the histories: hardly anybody was answered
	operations int
	unknown    int
	grants     int
	lost       int // grants whose holder never released them
	verdicts   map[backends.Verdict]int
}

// add counts the operations of one history.
func (s *total) add(operations []porcupine.Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.histories++
	s.operations += len(operations)
	if s.verdicts == nil {
		s.verdicts = map[backends.Verdict]int{}
	}
	granted := map[int64]int{} // tokens, and their holders
	over := map[int]bool{}
	for _, o := range operations {
		q, r := parts(o)
		s.verdicts[r.verdict]++
		switch {
		case r.verdict == unknown:
			s.unknown++
		case r.verdict == backends.Granted:
			granted[r.token] = q.holder
		case r.verdict == ok && (q.step == finishes || q.step == abandons):
			over[q.holder] = true
		}
	}
	s.grants += len(granted)
	for _, holder := range granted {
		if !over[holder] {
			s.lost++
		}
	}
}

func (s *total) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d operations in %d histories (%d not judged), %d with an unknown outcome, %d grants, %d of them never released: %v",
		s.operations, s.histories, s.unjudged, s.unknown, s.grants, s.lost, s.verdicts)
}

func seconds(i boottime.Instant) float64 { return time.Duration(i).Seconds() }

func (q request) String() string {
	s := fmt.Sprintf("%s by %d", q.step, q.holder)
	if q.token != 0 {
		s += fmt.Sprintf(" token %d", q.token)
	}
	if q.tick != 0 {
		s += fmt.Sprintf(" tick %d %s", q.tick, q.policy)
	}
	if q.parts != 0 {
		s += fmt.Sprintf(" of %d parts", q.parts)
	}
	if q.outcome != "" {
		s += " " + string(q.outcome)
	}
	return s
}

func (r reply) String() string {
	s := string(r.verdict)
	if r.token != 0 {
		s += fmt.Sprintf(" token %d", r.token)
	}
	if r.holder != 0 {
		s += fmt.Sprintf(" by %d", r.holder)
	}
	if r.tick != 0 {
		s += fmt.Sprintf(" tick %d attempt %d", r.tick, r.attempt)
	}
	if r.parts != 0 {
		s += fmt.Sprintf(" of %d parts", r.parts)
	}
	return s
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
