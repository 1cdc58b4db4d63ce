package redis

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
)

// hash is a record or a mark as Redis shows it. Each field of a record's JSON is a field of its own; the job's name stands there as it
// is. A field that is missing is zero. Beside those of a Record there is "version".
type hash map[string]string

// record reads a record.
func (h hash) record() (backends.Record, error) {
	if form, err := strconv.ParseInt(h["form"], 10, 64); err == nil { // what else is wrong with it counts less
		if err := backends.CheckForm(form); err != nil {
			return backends.Record{}, err
		}
	}
	all := map[string]json.RawMessage{}
	for field, text := range h {
		switch {
		case field == "version", text == "":
		case field == "job":
			all[field] = backends.Marshal(text)
		case text == "null", strings.TrimSpace(text) != text, !json.Valid([]byte(text)):
			return backends.Record{}, fmt.Errorf("field %s is nothing that leaderrun writes: %.40q", field, text)
		default:
			all[field] = json.RawMessage(text)
		}
	}
	return backends.ParseRecord(backends.Marshal(all))
}

// hashOf is the opposite of hash.record.
func hashOf(r backends.Record) hash {
	h, empty := hash{}, jsonFields(backends.Record{})
	for field, text := range jsonFields(r) {
		if string(text) != string(empty[field]) {
			h[field] = string(text)
		}
	}
	if r.Job != "" {
		h["job"] = r.Job
	}
	return h
}

func jsonFields(r backends.Record) (all map[string]json.RawMessage) {
	if err := json.Unmarshal(backends.Marshal(r), &all); err != nil {
		panic(err) // it was written a moment ago
	}
	return all
}

// mark reads the mark, whose epoch is none of its fields in a Mark.
func (h hash) mark() (backends.Mark, error) {
	var err error
	number := func(field string) int64 {
		if h[field] == "" {
			return 0
		}
		n, bad := strconv.ParseInt(h[field], 10, 64)
		if bad != nil && err == nil {
			err = fmt.Errorf("field %s is no number that leaderrun writes: %.40q", field, h[field])
		}
		return n
	}
	m := backends.Mark{
		Identity: h["identity"], Replicas: int(number("replicas")), Longest: number("longest"), Until: number("until"), Evicted: number("evicted"),
	}
	for _, n := range []int64{int64(m.Replicas), m.Longest, m.Until} {
		if (n < 0 || n > backends.MaxToken) && err == nil {
			err = fmt.Errorf("%d is no number that leaderrun writes", n)
		}
	}
	return m, err
}
