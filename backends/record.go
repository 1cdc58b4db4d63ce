package backends

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How much a record remembers.
const (
	KeptRuns       = 20
	KeptKeys       = 100
	KeptSchedules  = 8
	KeptAbandoned  = 20
	KeptOrders     = 20
	MaxTickAhead   = 60 * time.Second // a tick further ahead of the server's clock is a wrong clock
	unclaimedGrace = 60 * time.Second // an instant passed unclaimed when it is older than this
)

// State is what became of a run, and of a tick or key.
type State string

// The states of a tick or key. A run without either is Claimed, Done, Failed, Stopped or Lost too.
const (
	Open    State = "open"    // never started
	Claimed State = "claimed" // granted, and not yet known to have ended
	Done    State = "done"    // ended with exit code 0
	Failed  State = "failed"  // ended otherwise, or by --timeout: an outcome
	Stopped State = "stopped" // ended by a signal to leaderrun or by break
	Lost    State = "lost"    // its holder vanished, or stopped it for want of renewal or of its guardian
	Missed  State = "missed"  // its time passed unstarted
)

// Lease is the right to run a job, as the store shows it.
type Lease struct {
	Holder string // the holder's ID
	Token  int64
	Left   time.Duration // until it expires
}

// Record is what a store keeps about a job for good. Times are milliseconds since 1970 of the store's
// clock, or of the writer's where the store has none. The zero Record is a job that nobody has run.
type Record struct {
	Form     int           `json:"form,omitempty"` // the version of this form that it was written in; 0: before there were any
	Job      string        `json:"job"`
	Token    int64         `json:"token"`
	Holder   Holder        `json:"holder"`             // who was granted Token
	TTL      int64         `json:"ttl"`                // of that lease, ms
	Granted  int64         `json:"granted"`            // when
	Until    int64         `json:"until"`              // when the lease ends if it is not renewed
	Beat     int64         `json:"beat"`               // counts grants and renewals
	Released int64         `json:"released"`           // the last token whose run has ended for certain; if it equals Token, the record is free
	Ended    int64         `json:"ended"`              // when Released was written
	Parts    int           `json:"parts,omitempty"`    // of how many the last run was one, see Trigger; 0: the job is not divided
	Tick     Occurrence    `json:"tick"`               // the last tick
	Passed   int64         `json:"passed,omitempty"`   // the latest tick that was refused because an earlier run held the lease
	Once     []Occurrence  `json:"once,omitempty"`     // the last keys, newest first
	Schedule Schedule      `json:"schedule"`           // where Tick comes from
	Former   []Schedule    `json:"former,omitempty"`   // superseded schedules, newest first
	Runs     []Run         `json:"runs,omitempty"`     // the last runs, newest first
	Refused  []string      `json:"refused,omitempty"`  // holders that took their claim back, newest first
	Break    *BreakRequest `json:"break,omitempty"`    // a request to the holder of Token to stop
	Reserved *Reservation  `json:"reserved,omitempty"` // for the host that had it last; nil: for nobody
	Orders   []string      `json:"orders,omitempty"`   // orders that were carried out, by id, newest first; no Stop
}

// RecordForm is the version of the form in which records are written now. A program reads what has this one or an earlier one,
// and refuses a later one: it would lose what it does not know of.
const RecordForm = 1

// CheckForm returns an error for a record that a newer leaderrun has written. Misconfigured knows its remedy.
func CheckForm(form int64) error {
	if form > RecordForm {
		return NewerForm(form)
	}
	return nil
}

// NewerForm is the form of a record that a newer leaderrun has written.
type NewerForm int64

func (f NewerForm) Error() string {
	return fmt.Sprintf("a newer leaderrun has written it: it has form %d, and this leaderrun reads up to %d", int64(f), RecordForm)
}

// Occurrence is one tick or once-key and what became of it.
type Occurrence struct {
	Tick        int64  `json:"tick,omitempty"` // Unix seconds
	Key         string `json:"key,omitempty"`
	State       State  `json:"state,omitempty"`
	Claimant    Holder `json:"claimant"`
	Policy      Policy `json:"policy,omitempty"`
	Attempt     int    `json:"attempt,omitempty"`
	MaxAttempts int    `json:"max_attempts,omitempty"`
	Parts       int    `json:"parts,omitempty"` // into how many its work is divided, see Trigger; 0: it is not
}

// LastTick is the tick that was recorded last, and what became of it. The zero Occurrence: none was, or it was forgotten, and Tick is
// but the second up to which everything is missed.
func (r *Record) LastTick() Occurrence {
	if r.Tick.State == Missed && r.Tick.MaxAttempts == 0 { // no claim has that
		return Occurrence{}
	}
	return r.Tick
}

// Schedule identifies the schedule of a job.
type Schedule struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Text        string `json:"text,omitempty"`
	By          Holder `json:"by"`           // who recorded it
	At          int64  `json:"at,omitempty"` // when, ms
}

// Run is one entry of a job's history. An entry with Token 0 is a tick that never started.
type Run struct {
	Token   int64  `json:"token,omitempty"`
	Holder  Holder `json:"holder"`
	Tick    int64  `json:"tick,omitempty"`
	Key     string `json:"key,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Started int64  `json:"started,omitempty"` // ms
	Ended   int64  `json:"ended,omitempty"`   // ms; 0: not known to have ended
	State   State  `json:"state"`
	Exit    int    `json:"exit"`
	Note    string `json:"note,omitempty"` // why it ended, where an operator or the timeout ended it
}

// BreakRequest asks a holder to stop.
type BreakRequest struct {
	Token  int64  `json:"token"` // whose run is meant
	By     Holder `json:"by"`
	Reason string `json:"reason,omitempty"`
	At     int64  `json:"at"`            // ms
	All    bool   `json:"all,omitempty"` // of a job in parts: all of its work is to end, and not this part alone
}

// What the numbers of a record can be. With these no sum of the decisions overflows, and none of them is near in use.
const (
	// MaxToken is the largest token that a record may have, and the largest of its instants and beats: milliseconds
	// since 1970 come there in 285,000 years, and neither JSON nor the Lua of Redis has exact numbers beyond it.
	MaxToken = 1<<53 - 1

	// maxRecord is how many bytes of text a record may have. One that is as full as it gets, with names and keys that JSON
	// writes as six bytes for each of theirs, has less.
	maxRecord = 512 << 10

	maxRecordTTL = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)
	maxAttempt   = 1<<31 - 1
	maxParts     = 1<<31 - 1
)

// ParseRecord reads a record as Marshal writes it. A number that no grant, renewal or end has written is an error: from a
// token that cannot be counted up the next one would be lower. So is a text that is longer than any that leaderrun writes: a run
// keeps its record in memory.
func ParseRecord(text []byte) (Record, error) {
	var r Record
	if err := CheckSize(len(text)); err != nil {
		return r, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) { // null would be an empty record
		return r, errors.New("it is no JSON object")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		var newer struct{ Form int64 }
		if json.Unmarshal(text, &newer) == nil { // what else is wrong with it counts less
			err = cmp.Or(CheckForm(newer.Form), err)
		}
		return r, err
	}
	if err := CheckForm(int64(r.Form)); err != nil {
		return r, err
	}
	err := r.Check()
	return r, err
}

// CheckSize returns an error for a record of more bytes than leaderrun writes.
func CheckSize(n int) error {
	if n > maxRecord {
		return fmt.Errorf("it has %d bytes, and one that leaderrun writes less than %d", n, maxRecord)
	}
	return nil
}

// Check returns what of a record's numbers and states cannot be.
func (r *Record) Check() error {
	var err error
	within := func(name string, n, most int64) {
		if (n < 0 || n > most) && err == nil {
			err = fmt.Errorf("its %s cannot be %d", name, n)
		}
	}
	within("form", int64(r.Form), RecordForm)
	within("token", r.Token, MaxToken)
	within("released token", r.Released, MaxToken)
	within("ttl", r.TTL, maxRecordTTL)
	within("beat", r.Beat, MaxToken)
	within("passed tick", r.Passed, MaxToken)
	within("number of parts", int64(r.Parts), maxParts)
	for _, at := range []int64{r.Granted, r.Until, r.Ended, r.Schedule.At} {
		within("time", at, MaxToken)
	}
	if r.Reserved != nil {
		within("reservation", r.Reserved.Until, MaxToken)
		within("reservation", r.Reserved.For, MaxToken)
	}
	known := func(s State) {
		switch s {
		case Open, Claimed, Done, Failed, Stopped, Lost, Missed:
		default:
			err = cmp.Or(err, fmt.Errorf("%.40q is no state that leaderrun writes", string(s)))
		}
	}
	if r.Tick.Tick != 0 || r.Tick.State != "" {
		known(r.Tick.State)
	}
	for _, o := range r.Once {
		known(o.State)
	}
	for _, o := range append([]Occurrence{r.Tick}, r.Once...) {
		within("tick", o.Tick, MaxToken)
		within("attempt", int64(o.Attempt), maxAttempt)
		within("number of attempts", int64(o.MaxAttempts), maxAttempt)
		within("number of parts", int64(o.Parts), maxParts)
	}
	for _, run := range r.Runs {
		known(run.State)
		within("token", run.Token, MaxToken)
		within("tick", run.Tick, MaxToken)
		within("attempt", int64(run.Attempt), maxAttempt)
		within("time", run.Started, MaxToken)
		within("time", run.Ended, MaxToken)
	}
	return err
}

// Marshal writes as JSON what a store keeps: a record, a label, a mark, or what a driver makes of them. Whatever has
// strings and numbers only can be written.
func Marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", v, err))
	}
	return text
}

// SameButBeat says whether two records differ at most in what a renewal changes. A store may keep that elsewhere.
func SameButBeat(a, b Record) bool {
	a.Beat, a.Until, b.Beat, b.Until = 0, 0, 0, 0
	return bytes.Equal(Marshal(a), Marshal(b))
}

// Free says whether the run of the last token has ended for certain: it was released, or an operator has answered for its end. Only
// then nobody has to be waited for.
func (r *Record) Free() bool { return r.Released == r.Token }

// HolderOf returns who has the lease of a job, or has lost it and may still run it; zero: nobody. A record that was lost or rolled
// back may not know who has the lease: then there is only an id.
func HolderOf(r *Record, lease *Lease) Holder {
	switch {
	case lease != nil && lease.Holder != r.Holder.ID:
		return Holder{ID: lease.Holder}
	case lease == nil && r.Free():
		return Holder{}
	}
	return r.Holder
}

// AsksToStop says whether the holder is asked to stop. A record that was lost or rolled back may tell of an earlier run than the one that
// is meant.
func (r *Record) AsksToStop() bool { return r.Break != nil && r.Break.Token >= r.Token }

// clone returns a copy that shares no slice with r.
func (r Record) clone() Record {
	r.Once = slices.Clone(r.Once)
	r.Former = slices.Clone(r.Former)
	r.Runs = slices.Clone(r.Runs)
	r.Refused = slices.Clone(r.Refused)
	r.Orders = slices.Clone(r.Orders)
	if r.Break != nil {
		b := *r.Break
		r.Break = &b
	}
	return r
}

// run returns the history entry of a token, or nil.
func (r *Record) run(token int64) *Run {
	for i := range r.Runs {
		if r.Runs[i].Token == token && token != 0 {
			return &r.Runs[i]
		}
	}
	return nil
}

// note puts an entry at the head of the history.
func (r *Record) note(run Run) { r.Runs = keep(slices.Insert(r.Runs, 0, run), KeptRuns) }

// keep cuts a list to its first n entries.
func keep[T any](s []T, n int) []T {
	if len(s) > n {
		return s[:n]
	}
	return s
}
