package runner

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
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
		num(digest, k.until, k.beat, k.written, k.token, k.ends, k.leased, k.marked, k.mark.Until, int64(len(k.server.Identity)))
		b = append(append(b, k.holder...), 0)
		b = append(append(b, k.mark.Identity...), 0)
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
	num(int64(w.now), w.writes, int64(w.faults), int64(w.exits), w.highest, int64(len(w.ticks)))
	for _, n := range []int64{e.tick, e.tick + 1} {
		num(int64(w.ticks[n]))
	}
	flags(w.ticks == nil)
	keeps(&w.store)
	if e.mayHappen(setBack, 0) {
		keeps(&w.before)
	}
	for i := range hosts + 1 {
		p := w.at(i)
		t := &p.tree
		flags(p.dead, p.stopped, p.cut, p.readying, p.late, p.watches, p.news, p.isDone, p.doubted, p.heardLoss,
			t.alive, t.told, t.exited, t.orphan, t.slow)
		num(int64(p.begins), int64(p.starting.Term), int64(p.yes), p.shown, int64(t.deadline.Term), int64(t.dieBy), int64(len(p.inbox)))
		shown(p.known)
		for k := range p.requests {
			r := &p.requests[k]
			b = append(b, reflect.TypeOf(r.asks).String()...)
			b = digest(b, reflect.ValueOf(r.asks))
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
			b = digest(b, reflect.ValueOf(p.m).Elem())
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

// digest writes what tells a value from another one.
func digest(b []byte, v reflect.Value) []byte {
	if untold[v.Type()] {
		return b
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if v.Type() == grantType && field.Kind() != reflect.Int64 && field.Kind() != reflect.Int {
				continue
			}
			b = digest(b, field)
		}
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		if v.Type() == errorType {
			return append(b, 1)
		}
		if v.Kind() == reflect.Interface {
			b = append(b, v.Elem().Type().String()...)
		}
		b = digest(b, v.Elem())
	case reflect.Slice:
		b = binary.AppendVarint(b, int64(v.Len()))
		for i := range v.Len() {
			b = digest(b, v.Index(i))
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
