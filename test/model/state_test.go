package model

import (
	"reflect"
	"testing"
)

// A gap would make the hash of a state go field by field, which takes most of the time.
func TestStatesHaveNoGaps(t *testing.T) {
	t.Parallel()
	var size func(reflect.Type) uintptr
	size = func(x reflect.Type) uintptr {
		switch x.Kind() {
		case reflect.Struct:
			sum := uintptr(0)
			for f := range x.Fields() {
				sum += size(f.Type)
			}
			if sum != x.Size() {
				t.Errorf("%s has gaps: its fields have %d bytes, and it has %d", x, sum, x.Size())
			}
			return x.Size()
		case reflect.Array:
			return uintptr(x.Len()) * size(x.Elem())
		}
		return x.Size()
	}
	size(reflect.TypeFor[state]())
}
