package redis

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

// TestEveryFieldIsKept: hazard: what is new in a Record has no field in Redis, and is forgotten.
// hashOf is the opposite of hash.record.
func hashOf(r backends.Record) hash {
	h := hash{}
	for field, v := range fieldsOf(&r) {
		if text := textOf(v); text != "" {
			h[field] = text
		}
	}
	if r.Job != "" {
		h["job"] = r.Job
	}
	return h
}

func TestEveryFieldIsKept(t *testing.T) {
	t.Parallel()
	var r backends.Record
	fill(reflect.ValueOf(&r).Elem())
	r.Tick.Key = "" // a tick has none
	r.Form = backends.RecordForm
	again, err := hashOf(r).record()
	if diff := cmp.Diff(r, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// fill makes no value of v its zero one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString(string(backends.Done)) // a state, too
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(7)
	}
}
