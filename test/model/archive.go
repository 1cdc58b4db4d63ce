package model

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// The decisions work on the real types. This file maps their times, tokens, ticks and names to the small numbers of a
// state and back, and keeps every record that was ever met once.

// record is the number of a record in the archive. 0 is the empty one.
type record uint32

const (
	job       = "job"
	key       = "key"
	beginning = int64(1_800_000_000_000)   // ms; the moment 0
	unit      = int64(1000)                // ms in a unit of the model
	firstTick = beginning/1000 - int64(60) // Unix seconds of the tick before tick 1: all have passed, none is far off
)

func ms(m moment) int64                 { return beginning + int64(m)*unit }
func clock(m moment) time.Time          { return time.UnixMilli(ms(m)) }
func length(m moment) time.Duration     { return time.Duration(int64(m)*unit) * time.Millisecond }
func instant(t time.Time) moment        { return moment((t.UnixMilli() - beginning) / unit) }
func units(d time.Duration) moment      { return moment((d.Milliseconds() + unit - 1) / unit) }
func number(h holder) string            { return strconv.Itoa(int(h)) }
func holderOf(h holder) backends.Holder { return backends.Holder{ID: number(h)} }

func tokenOf(t int64) token {
	if t == 0 {
		return 0
	}
	return token(t - beginning)
}

func (t token) real() int64 {
	if t == 0 {
		return 0
	}
	return int64(t) + beginning
}

func named(id string) holder {
	n, err := strconv.ParseUint(id, 10, 8)
	if err != nil {
		return 0
	}
	return holder(n)
}

// tick returns the instant of a tick, 0 for anything else.
func (o trigger) tick() int64 {
	if o == 0 || o > lastTick {
		return 0
	}
	return firstTick + int64(o)
}

func (o trigger) key() string {
	if o == theKey {
		return key
	}
	return ""
}

// triggerOf is the reverse of tick and key.
func triggerOf(tick int64, key string) trigger {
	switch {
	case tick != 0:
		return trigger(tick - firstTick)
	case key != "":
		return theKey
	}
	return 0
}

// archive keeps records, each under one number.
type archive struct {
	numbers map[string]record
	records []backends.Record
	scratch []byte
}

func newArchive() *archive {
	a := &archive{numbers: map[string]record{}}
	a.put(backends.Record{})
	return a
}

// get returns a record. The decisions change copies only.
func (a *archive) get(r record) *backends.Record { return &a.records[r] }

// put files a record under its number. What no decision of the model will ask for is left out of it.
func (a *archive) put(r backends.Record) record {
	plain(&r)
	a.scratch = identify(a.scratch[:0], &r)
	if n, ok := a.numbers[string(a.scratch)]; ok {
		return n
	}
	n := record(len(a.records))
	a.numbers[string(a.scratch)] = n
	a.records = append(a.records, r)
	return n
}

// plain takes out of a record what is there for people or for schedules, which the model has none of, and what has a
// place of its own in a state: the beat.
func plain(r *backends.Record) {
	r.Granted, r.Ended, r.Beat = 0, 0, 0
	if r.Free() {
		r.Until = 0 // nobody waits for a holder that has released
	}
	if r.Break != nil {
		r.Break = &backends.BreakRequest{Token: r.Break.Token}
	}
	r.Runs, r.Refused, r.Orders = slices.Clone(r.Runs), slices.Clone(r.Refused), slices.Clone(r.Orders)
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Started, run.Exit, run.Note = 0, 0, ""
		if run.Ended != 0 {
			run.Ended = beginning
		}
	}
	slices.Sort(r.Refused)
	slices.Sort(r.Orders)
}

// identify writes what tells a plain record from another one.
func identify(to []byte, r *backends.Record) []byte {
	number := func(n int64) { to = binary.AppendVarint(to, n) }
	text := func(s string) {
		to = binary.AppendUvarint(to, uint64(len(s)))
		to = append(to, s...)
	}
	occurrence := func(o *backends.Occurrence) {
		number(o.Tick)
		text(o.Key)
		text(string(o.State))
		text(o.Claimant.ID)
		text(string(o.Policy))
		number(int64(o.Attempt))
		number(int64(o.MaxAttempts))
		number(int64(o.Parts))
	}
	text(r.Job)
	number(r.Token)
	text(r.Holder.ID)
	number(r.TTL)
	number(r.Until)
	number(r.Released)
	number(r.Passed)
	number(int64(r.Parts))
	occurrence(&r.Tick)
	number(int64(len(r.Once)))
	for i := range r.Once {
		occurrence(&r.Once[i])
	}
	number(int64(len(r.Runs)))
	for i := range r.Runs {
		run := &r.Runs[i]
		number(run.Token)
		text(run.Holder.ID)
		number(run.Tick)
		text(run.Key)
		number(int64(run.Attempt))
		number(run.Ended)
		text(string(run.State))
	}
	for _, list := range [][]string{r.Refused, r.Orders} {
		number(int64(len(list)))
		for _, id := range list {
			text(id)
		}
	}
	if r.Break != nil {
		number(r.Break.Token)
	}
	return to
}
