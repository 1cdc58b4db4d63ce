package redis

import (
	"context"
	"reflect"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Swap implements backends.Tx, by one script. It compares which server it is, its mark, the lease, and the version of the
// record, and refuses what was read too long ago, or later than now by the server's clock. A grant also has to find that
// the quarantine is over, and that nothing was evicted where nothing is known of the job.
//
// until, beat and ttl are not compared, but for an order: renewals change nothing else. With a lease the script sets them,
// by the server's clock; without one they stay, unless it was decided that they change.
//
// A claim that is taken back and was never granted only adds its holder to a list. Of that only is compared that nobody was
// granted since: else of a thousand who do so at once each would write what all the others then have to decide on again.
func (t *tx) Swap(ctx context.Context, was backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	s := of(was)
	changes := changed(s.record, w)
	if t.q.Op == backends.ToRenew && s.record.Token == w.Lease.Token && len(changes) == 0 {
		return t.renew(ctx, s, w)
	}
	beat := "-"
	if w.CompareBeat {
		beat = s.beat
	}
	acks := s.replicas
	if t.q.Op == backends.ToClaim && w.Lease == nil { // a note beside a refusal
		acks = noAcks
	}
	tell := w.Release || t.q.Op == backends.ToOrder
	version, refused := s.version, ""
	if t.q.Op == backends.ToAbandon && len(changes) == 2 && changes[0] == "refused" {
		refused, changes = w.Record.Refused[0], nil
	}
	if t.q.Op == backends.ToAbandon && len(changes) == 0 { // there may be nothing to add: it was asked before
		version = "-" + strconv.Itoa(backends.RecordForm)
	}
	args := append(s.read(version, beat), "", 0, t.cfg.longest.Milliseconds(), t.q.Job, w.Record.Token, leaseText(w.Lease), w.TTL.Milliseconds(),
		w.Record.Beat, flag(w.Release), flag(tell), refused, backends.KeptAbandoned)
	r, err := t.ask(ctx, request{script: swapScript, job: t.q.Job, acks: acks, args: append(args, changes...)})
	if err != nil {
		return nil, false, err
	}
	return t.swapped(r, s, w, false)
}

// swapped returns what a script left, or what there is where it wrote nothing. A renewal by renew.lua writes no new version.
func (t *tx) swapped(r reply, s *state, w backends.Write, isRenewal bool) (backends.Snapshot, bool, error) {
	if r.text(replySaid) != "done" {
		now, err := t.state(t.q.Job, r)
		if err != nil || t.q.Op == backends.ToClaim && !now.isMarked() { // Read sees to the mark
			return nil, false, err
		}
		return now, false, nil
	}
	n := numbers{reply: r}
	next := *s
	next.record, next.now, next.replicas, next.written = w.Record, n.at(replyNow), n.at(replyReplicas), time.Now()
	if w.Record.Break == nil {
		next.stop = ""
	}
	until, beat := n.at(doneUntil), n.at(doneBeat)
	if n.wrong || len(r.elements) != doneSize || w.Lease != nil && (until <= 0 || beat <= 0) {
		return nil, false, errReply
	}
	if !isRenewal {
		next.version = r.text(replyNonce)
	}
	switch {
	case w.Lease != nil:
		next.lease, next.left, next.record.Until, next.record.Beat = w.Lease, w.TTL, until, beat
	case w.Release:
		next.lease = nil
	}
	return &next, true, nil
}

// putMark writes the mark as it has to be, if it is as it was read, and returns what there is then. Of those who do so after
// a restart one is first, and for the others it is done.
func (s *store) putMark(ctx context.Context, job string, was *state) (*state, error) {
	args := append(was.read("-", "-"), was.next.Until, was.next.Evicted, was.next.Longest)
	r, err := s.ask(ctx, request{script: swapScript, job: job, acks: noAcks, args: args})
	if err != nil {
		return nil, err
	}
	return s.state(job, r)
}

// read are the arguments of swap.lua that say what was read. version and beat are those of the record, or "-".
func (s *state) read(version, beat string) []any {
	return []any{s.now, oldestRead.Milliseconds(), s.identity, s.epoch, leaseText(s.lease), version, beat}
}

// oldestRead is how long ago something was read at most that is written on. No step waits longer for an answer.
const oldestRead = readTimeout

// changed returns the fields of a record that a write changes, each with its new value or "". What else is stored stays as
// it is, to the byte.
func changed(was backends.Record, w backends.Write) (fields []any) {
	old := fieldsOf(&was)
	for field, is := range fieldsOf(&w.Record) {
		own := field == "until" || field == "beat" || field == "ttl"
		if field == "job" || own && w.Lease != nil || reflect.DeepEqual(old[field].Interface(), is.Interface()) {
			continue
		}
		fields = append(fields, field, textOf(is))
	}
	return fields
}

func flag(yes bool) string {
	if yes {
		return "1"
	}
	return ""
}
