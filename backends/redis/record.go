package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/leaderrun/leaderrun/backends"
)

// hash is a record as Redis shows it: flat fields that redis-cli can read, and lists as JSON. A field that is
// missing is zero. Beside those of a Record there is "version".
type hash map[string]string

// maxEntries is more than any list of a record has.
const maxEntries = 1000

// few is a list in JSON of no more than maxEntries: three bytes of it may become two hundred in memory.
type few[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("it is no list")
	}
	*f = nil
	for d.More() {
		if len(*f) == maxEntries {
			return fmt.Errorf("a list of more than %d entries", maxEntries)
		}
		var entry T
		if err := d.Decode(&entry); err != nil {
			return err
		}
		*f = append(*f, entry)
	}
	return nil
}

// hashReader reads fields and keeps the first error.
type hashReader struct {
	hash
	err error
}

func (h *hashReader) int(field string) int64 {
	s := h.hash[field]
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("field %s is no number that leaderrun writes: %.40q", field, s)
	}
	return n
}

func (h *hashReader) json(field string, to any) {
	s := h.hash[field]
	if s == "" {
		return
	}
	if err := json.Unmarshal([]byte(s), to); err != nil && h.err == nil {
		h.err = fmt.Errorf("field %s is no JSON that leaderrun writes: %w", field, err)
	}
}

func (h *hashReader) holder(id, prefix string) backends.Holder {
	return backends.Holder{
		ID: h.hash[id], Host: h.hash[prefix+"host"], PID: int(h.int(prefix + "pid")), User: h.hash[prefix+"user"],
	}
}

// record reads a record.
func (h hash) record() (backends.Record, error) {
	f := &hashReader{hash: h}
	form := f.int("form")
	if err := backends.CheckForm(form); err != nil {
		return backends.Record{}, err
	}
	r := backends.Record{
		Form: int(form), Job: h["job"], Token: f.int("token"), Holder: f.holder("holder", ""),
		TTL: f.int("ttl"), Granted: f.int("granted"), Until: f.int("until"), Beat: f.int("beat"),
		Released: f.int("released"), Ended: f.int("ended"), Passed: f.int("passed"), Parts: int(f.int("parts")),
		Tick: backends.Occurrence{
			Tick: f.int("tick"), State: backends.State(h["tick_state"]), Claimant: f.holder("tick_holder", "tick_"),
			Policy: backends.Policy(h["tick_policy"]), Attempt: int(f.int("tick_attempt")),
			MaxAttempts: int(f.int("tick_max_attempts")), Parts: int(f.int("tick_parts")),
		},
		Schedule: backends.Schedule{
			Fingerprint: h["fingerprint"], Text: h["schedule"],
			By: f.holder("schedule_holder", "schedule_"), At: f.int("schedule_at"),
		},
	}
	f.json("once", (*few[backends.Occurrence])(&r.Once))
	f.json("former", (*few[backends.Schedule])(&r.Former))
	f.json("runs", (*few[backends.Run])(&r.Runs))
	f.json("refused", (*few[string])(&r.Refused))
	f.json("break", &r.Break)
	f.json("reserved", &r.Reserved)
	f.json("orders", (*few[string])(&r.Orders))
	if f.err != nil {
		return r, f.err
	}
	err := check(&r)
	return r, err
}

// check returns what of a record cannot be.
func check(r *backends.Record) error {
	states := []backends.State{r.Tick.State}
	if r.Tick.Tick == 0 && r.Tick.State == "" {
		states = nil
	}
	for _, o := range r.Once {
		states = append(states, o.State)
	}
	for _, run := range r.Runs {
		states = append(states, run.State)
	}
	for _, s := range states {
		switch s {
		case backends.Open, backends.Claimed, backends.Done, backends.Failed, backends.Stopped, backends.Lost, backends.Missed:
		default:
			return fmt.Errorf("%.40q is no state that leaderrun writes", string(s))
		}
	}
	return r.Check()
}

// hashOf is the opposite of hash.record.
func hashOf(r backends.Record) hash {
	h := hash{}
	text := func(field, value string) {
		if value != "" {
			h[field] = value
		}
	}
	holder := func(id, prefix string, x backends.Holder) {
		text(id, x.ID)
		text(prefix+"host", x.Host)
		text(prefix+"user", x.User)
		if x.PID != 0 {
			h[prefix+"pid"] = strconv.Itoa(x.PID)
		}
	}
	text("job", r.Job)
	for field, n := range map[string]int64{
		"form": int64(r.Form), "token": r.Token, "ttl": r.TTL, "granted": r.Granted, "until": r.Until, "beat": r.Beat, "released": r.Released,
		"ended": r.Ended, "passed": r.Passed, "tick": r.Tick.Tick, "tick_attempt": int64(r.Tick.Attempt),
		"tick_max_attempts": int64(r.Tick.MaxAttempts), "schedule_at": r.Schedule.At,
		"parts": int64(r.Parts), "tick_parts": int64(r.Tick.Parts),
	} {
		if n != 0 {
			h[field] = strconv.FormatInt(n, 10)
		}
	}
	holder("holder", "", r.Holder)
	holder("tick_holder", "tick_", r.Tick.Claimant)
	holder("schedule_holder", "schedule_", r.Schedule.By)
	text("tick_state", string(r.Tick.State))
	text("tick_policy", string(r.Tick.Policy))
	text("fingerprint", r.Schedule.Fingerprint)
	text("schedule", r.Schedule.Text)
	put(h, "once", r.Once)
	put(h, "former", r.Former)
	put(h, "runs", r.Runs)
	put(h, "refused", r.Refused)
	put(h, "orders", r.Orders)
	if r.Break != nil {
		h["break"] = string(backends.Marshal(r.Break))
	}
	if r.Reserved != nil {
		h["reserved"] = string(backends.Marshal(r.Reserved))
	}
	return h
}

// put adds a list, which is kept as JSON; an empty one has no field.
func put[T any](h hash, field string, list []T) {
	if len(list) > 0 {
		h[field] = string(backends.Marshal(list))
	}
}

// mark reads the mark, whose epoch is none of its fields in a Mark.
func (h hash) mark() (backends.Mark, error) {
	f := &hashReader{hash: h}
	m := backends.Mark{
		Identity: h["identity"], Replicas: int(f.int("replicas")), Longest: f.int("longest"), Until: f.int("until"), Evicted: f.int("evicted"),
	}
	for _, n := range []int64{int64(m.Replicas), m.Longest, m.Until} {
		if (n < 0 || n > backends.MaxToken) && f.err == nil {
			f.err = fmt.Errorf("%d is no number that leaderrun writes", n)
		}
	}
	return m, f.err
}
