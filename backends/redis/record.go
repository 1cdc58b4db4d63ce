package redis

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
)

// hash is a record or a mark as Redis shows it. Each field of a record's JSON is a field of its own; the job's name stands there as it
// is. A field that is missing is zero. Beside those of a Record there is "version".
type hash map[string]string

// record reads a record.
func (h hash) record() (r backends.Record, err error) {
	if form, err := strconv.ParseInt(h["form"], 10, 64); err == nil { // what else is wrong with it counts less
		if err := backends.CheckForm(form); err != nil {
			return r, err
		}
	}
	size := 0
	for field, text := range h {
		size += len(field) + len(text)
	}
	if err := backends.CheckSize(size); err != nil { // before lists of it are made
		return r, err
	}
	fields := fieldsOf(&r)
	for field, text := range h {
		switch {
		case field == "version", text == "":
			continue
		case field == "job":
			text = string(backends.Marshal(text))
		}
		into := any(&json.RawMessage{}) // of what a newer leaderrun writes
		if f, ok := fields[field]; ok {
			into = f.Addr().Interface()
		}
		if text == "null" || strings.TrimSpace(text) != text || json.Unmarshal([]byte(text), into) != nil {
			return backends.Record{}, fmt.Errorf("field %s is nothing that leaderrun writes: %.40q", field, text)
		}
	}
	err = r.Check()
	return r, err
}

// fieldsOf returns the fields of a record by their names in JSON.
func fieldsOf(r *backends.Record) map[string]reflect.Value {
	v, fields := reflect.ValueOf(r).Elem(), map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
	}
	return fields
}

// textOf is how a field of a record is stored; "": it is not, being zero.
func textOf(v reflect.Value) string {
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return ""
	}
	return string(backends.Marshal(v.Interface()))
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
