package model

import (
	"reflect"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// What the model leaves out of a record: times and texts for people, schedules, reservations, on which no safety rests, the form,
// and the beat, which a state has beside its record.
var leftOut = map[string]bool{
	"Form": true, "Reserved": true,
	"Granted": true, "Ended": true, "Beat": true, "Schedule": true, "Former": true,
	"Run.Started": true, "Run.Exit": true, "Run.Note": true,
	"BreakRequest.By": true, "BreakRequest.Reason": true, "BreakRequest.At": true, "BreakRequest.All": true,
	"Holder.Host": true, "Holder.PID": true, "Holder.User": true,
}

// Two records that a decision may tell apart must not become one. A new field of a record is either part of what is
// filed, or is named above.
func TestRecordsAreToldApart(t *testing.T) {
	t.Parallel()
	whole := func() backends.Record {
		o := backends.Occurrence{Tick: 1, Key: "k", State: backends.Claimed, Claimant: holderOf(1), Policy: backends.Skip, Attempt: 1, MaxAttempts: 1}
		return backends.Record{
			Job: job, Token: beginning, Holder: holderOf(1), TTL: 1, Until: beginning, Released: beginning - 1, Passed: 1,
			Tick: o, Once: []backends.Occurrence{o}, Refused: []string{"1"}, Orders: []string{"1"},
			Runs:  []backends.Run{{Token: 1, Holder: holderOf(1), Tick: 1, Key: "k", Attempt: 1, State: backends.Claimed}},
			Break: &backends.BreakRequest{Token: 1},
		}
	}
	a := newArchive()
	first := a.put(whole())
	check := func(path string, r backends.Record) {
		if differs := a.put(r) != first; differs == leftOut[path] {
			t.Errorf("%s: told apart %v, left out %v", path, differs, leftOut[path])
		}
	}
	r := whole()
	visit(reflect.ValueOf(&r).Elem(), "", func(path string) { check(path, r) })
}

// visit changes every field below v, one at a time, and calls f each time.
func visit(v reflect.Value, path string, f func(string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = v.Type().Name() + "." + name
			}
			if kind := v.Field(i).Kind(); leftOut[name] && (kind == reflect.Struct || kind == reflect.Pointer) {
				continue
			}
			visit(v.Field(i), name, f)
		}
		return
	case reflect.Pointer:
		visit(v.Elem(), path, f)
		return
	case reflect.Slice:
		if v.Len() > 0 {
			visit(v.Index(0), path, f)
		}
		return
	}
	was := reflect.ValueOf(v.Interface())
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7)
	}
	f(path)
	v.Set(was)
}
