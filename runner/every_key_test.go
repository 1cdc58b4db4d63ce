package runner

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// key tells one world from another by 128 bits.
func (e *explorer) key(w *orders) [2]uint64 {
	b := e.scratch[:0]
	num := func(ns ...int64) {
		for _, n := range ns {
			b = binary.AppendVarint(b, n)
		}
	}
	flags := func(fs ...bool) {
		for _, f := range fs {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	keeps := func(k *kept) {
		digest := int64(0)
		if k.record != nil {
			digest = int64(k.record.digest) //nolint:gosec // bits
		}
		num(digest, k.until, k.beat, k.written, k.token, k.ends, k.leased, k.term, k.label.Token, k.marked)
		num(k.mark.Until, k.mark.Longest, int64(k.mark.Replicas), k.mark.Evicted)
		num(k.server.Started, int64(k.server.Replicas), k.server.Evicted)
		for _, text := range []string{k.holder, k.label.Holder, k.mark.Identity, k.server.Identity} {
			b = append(append(b, text...), 0)
		}
		flags(k.server.Forgot)
	}
	shown := func(s *shot) {
		if s == nil {
			b = append(b, 0)
			return
		}
		num(1, int64(s.at), int64(s.quarantine), s.writes)
		keeps(&s.kept)
	}
	num(int64(w.now), w.writes, int64(w.faults), int64(w.exits), w.highest, w.order.Token)
	b = append(append(b, w.order.Kind...), 0)
	for i := range w.past {
		p := &w.past[i]
		num(int64(p.started))
		flags(p.once, p.done, p.forgotten)
	}
	flags(w.split, w.copied.stays, w.copied.unseen)
	keeps(&w.store)
	if w.split {
		keeps(&w.old)
	}
	if w.copied.stays {
		keeps(&w.copied.kept)
		num(w.copied.writes)
	}
	for i := range hosts + 1 {
		p := w.at(i)
		t := &p.tree
		flags(p.dead, p.stopped, p.cut, p.readying, p.late, p.watches, p.news, p.isDone, p.doubted, p.heardLoss, p.isExcused,
			t.alive, t.told, t.exited, t.orphan, t.slow)
		num(int64(p.begins), int64(p.starting.Term), int64(p.yes), p.shown, int64(t.deadline.Term), int64(t.dieBy), int64(len(p.inbox)))
		shown(p.known)
		for k := range p.requests {
			r := &p.requests[k]
			asks := shapeOf(reflect.TypeOf(r.asks))
			b = digest(append(b, asks.name...), reflect.ValueOf(r.asks), asks)
			num(int64(r.began), int64(r.until), int64(len(r.replies)), int64(r.call.what))
			flags(r.doubted, r.late, r.ghost, r.reply != nil)
			shown(r.known)
			shown(r.call.s)
			if r.reply != nil {
				flags(r.reply.done, r.reply.err != nil)
				shown(r.reply.s)
			}
			if r.call.w.Lease != nil {
				num(r.call.w.Lease.Token, r.call.w.Record.Until)
			}
			for _, o := range r.replies {
				num(int64(o.at))
				flags(o.done, o.err != nil)
				shown(o.s)
			}
		}
		for _, in := range p.inbox {
			b = append(b, tell(in)...)
		}
		if p.m != nil && !p.dead {
			b = digest(b, reflect.ValueOf(p.m).Elem(), shapeOf(reflect.TypeFor[machine]()))
		}
	}
	e.scratch = b
	return [2]uint64{maphash.Bytes(e.seeds[0], b), maphash.Bytes(e.seeds[1], b)}
}

// What of a machine does not tell what it will do: what is the same in all worlds of a case, texts, and what is for people.
var untold = map[reflect.Type]bool{
	reflect.TypeFor[Request]():           true,
	reflect.TypeFor[*backends.Refusal](): true,
	reflect.TypeFor[time.Time]():         true,
	reflect.TypeFor[moment]():            true,
	reflect.TypeFor[[]action]():          true,
}

var (
	errorType = reflect.TypeFor[error]()
	grantType = reflect.TypeFor[backends.Grant]()
)

// shape is what is known of a type before its values are seen. To ask reflect again for each value would be most of the work.
type shape struct {
	name   string
	untold bool
	fields []field // of a struct: those that tell something
}

type field struct {
	index int
	shape *shape
}

var shapes sync.Map // of *shape, by reflect.Type

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape) //nolint:forcetypeassert // nothing else is stored
	}
	s := &shape{name: t.String(), untold: untold[t]}
	if t.Kind() == reflect.Struct && !s.untold {
		for i := range t.NumField() {
			kind := t.Field(i).Type.Kind()
			if t == grantType && kind != reflect.Int64 && kind != reflect.Int {
				continue
			}
			if of := shapeOf(t.Field(i).Type); !of.untold {
				s.fields = append(s.fields, field{i, of})
			}
		}
	}
	shapes.Store(t, s)
	return s
}

// digest writes what tells a value from another one of its type.
func digest(b []byte, v reflect.Value, s *shape) []byte {
	if s.untold {
		return b
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range s.fields {
			f := &s.fields[i]
			b = digest(b, v.Field(f.index), f.shape)
		}
	case reflect.Interface:
		if v.IsNil() {
			return append(b, 0)
		}
		if v.Type() == errorType {
			return append(b, 1)
		}
		of := shapeOf(v.Elem().Type())
		b = digest(append(b, of.name...), v.Elem(), of)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		b = digest(b, v.Elem(), shapeOf(v.Type().Elem()))
	case reflect.Slice:
		b = binary.AppendVarint(b, int64(v.Len()))
		of := shapeOf(v.Type().Elem())
		for i := range v.Len() {
			b = digest(b, v.Index(i), of)
		}
	case reflect.String:
		b = append(append(b, v.String()...), 0)
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		b = binary.AppendVarint(b, v.Int())
	}
	return b
}
