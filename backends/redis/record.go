package redis

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/leaderrun/leaderrun/backends"
)

// hash is a record as Redis shows it: flat fields that redis-cli can read, and lists as JSON. A field that is
// missing is zero. common.lua reads and writes the same fields.
type hash map[string]string

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
		h.err = fmt.Errorf("field %s of the record: %w", field, err)
	}
	return n
}

func (h *hashReader) json(field string, to any) {
	s := h.hash[field]
	if s == "" {
		return
	}
	if err := json.Unmarshal([]byte(s), to); err != nil && h.err == nil {
		h.err = fmt.Errorf("field %s of the record: %w", field, err)
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
	r := backends.Record{
		Job: h["job"], Token: f.int("token"), Holder: f.holder("holder", ""),
		TTL: f.int("ttl"), Granted: f.int("granted"), Until: f.int("until"), Beat: f.int("beat"),
		Released: f.int("released"), Ended: f.int("ended"), Passed: f.int("passed"),
		Tick: backends.Occurrence{
			Tick: f.int("tick"), State: backends.State(h["tick_state"]), Claimant: f.holder("tick_holder", "tick_"),
			Policy: backends.Policy(h["tick_policy"]), Attempt: int(f.int("tick_attempt")),
			MaxAttempts: int(f.int("tick_max_attempts")),
		},
		Schedule: backends.Schedule{
			Fingerprint: h["fingerprint"], Text: h["schedule"],
			By: f.holder("schedule_holder", "schedule_"), At: f.int("schedule_at"),
		},
	}
	f.json("once", &r.Once)
	f.json("former", &r.Former)
	f.json("runs", &r.Runs)
	f.json("refused", &r.Refused)
	f.json("break", &r.Break)
	return r, f.err
}
