package consul

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/httplimit"
	"github.com/leaderrun/leaderrun/test/suite"
)

// FuzzAnswer: whatever a list of keys and the answer to a transaction are, they are refused, or a state that can be decided upon.
func FuzzAnswer(f *testing.F) {
	const record = `eyJqb2IiOiJqb2IiLCJ0b2tlbiI6NSwidHRsIjoxNTAwMCwidW50aWwiOjE3MDAwMDAwMDAwMDB9` // {"job":"job","token":5,"ttl":15000,"until":1700000000000}
	const lock = `eyJob2xkZXIiOnsiaWQiOiJhIn0sInRva2VuIjo1LCJ0dGwiOjE1MDAwfQ==`                   // {"holder":{"id":"a"},"token":5,"ttl":15000}
	for _, keys := range []string{
		`[]`, `[null]`, `[{}]`,
		`[{"LockIndex":1,"Key":"leaderrun/job/lock","Flags":0,"Value":"` + lock + `","Session":"s","CreateIndex":7,"ModifyIndex":7},` +
			`{"LockIndex":0,"Key":"leaderrun/job/record","Flags":0,"Value":"` + record + `","CreateIndex":7,"ModifyIndex":8}]`,
	} {
		f.Add([]byte(keys), []byte(`{"Results":[{"KV":{"Key":"leaderrun/job/record","ModifyIndex":9}},{"KV":{"Key":"leaderrun/job/lock","Session":"s","ModifyIndex":9}}],"Errors":null}`))
		f.Add([]byte(keys), []byte(`{"Results":null,"Errors":[{"OpIndex":1,"What":"failed index check for key \"x\""},null]}`))
	}
	cfg := &config{prefix: "leaderrun"}
	f.Fuzz(func(t *testing.T, keys, txn []byte) {
		var pairs api.KVPairs
		if httplimit.Weigh(keys) != nil || json.Unmarshal(keys, &pairs) != nil {
			return
		}
		s, err := cfg.parse("job", pairs)
		if err != nil {
			if s != nil {
				t.Fatalf("%+v, %v", s, err)
			}
			return
		}
		v := s.View(backends.Request{})
		if v.Lease != nil && (v.Lease.Left <= 0 || v.Lease.Left > 2*maxTTL || v.Lease.Token <= 0) {
			t.Fatalf("%+v", v.Lease)
		}
		if s.index == 0 && s.record.Job != "" || s.lock.index == 0 && s.lock.session != "" {
			t.Fatalf("what is not there says something: %+v", s)
		}
		s.news(nil)
		s.news(s)
		c := claim("job", "a", time.Minute)
		decision := backends.Decide(v, c)
		var reply api.TxnResponse
		if httplimit.Weigh(txn) != nil || json.Unmarshal(txn, &reply) != nil {
			return
		}
		if rolledBack(reply.Errors) == nil {
			t.Fatal("rolled back without an error")
		}
		if decision.Grant == nil {
			return
		}
		lock := owner{Holder: c.Holder, Token: decision.Grant.Token, TTL: c.TTL.Milliseconds()}
		step := &api.KVTxnOp{Verb: api.KVLock, Value: backends.Marshal(lock), Session: "s"}
		next, err := s.after(cfg.dir("job"), decision.Record, step, reply.Results)
		if err == nil && (next.index == 0 || next.lock.index == 0) {
			t.Fatalf("%+v", next)
		}
		if err == nil && next.lock.session != "s" {
			t.Fatalf("granted, and the lock is of %q", next.lock.session)
		}
	})
}

// FuzzURL: whatever the URL, nothing shows its token, and nothing panics.
func FuzzURL(f *testing.F) { suite.FuzzURL(f, Open, badURLs, form.Shapes) }
