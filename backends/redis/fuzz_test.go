package redis

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leaderrun/leaderrun/backends"
)

// fields is a record as lines of "field value".
func fields(text string) hash {
	h := hash{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		h[name] = value
	}
	return h
}

// FuzzRecord: whatever the fields of a record are, they are read or refused; what was read is the same when it has been written
// and read again.
func FuzzRecord(f *testing.F) {
	f.Add("job a\ntoken 1789999980002\nholder {\"id\":\"cc\",\"host\":\"h\",\"pid\":2,\"user\":\"u\"}\nttl 15000\nuntil 1790000001000\nbeat 2\nreleased 1789999980002")
	f.Add(`tick {"tick":60,"state":"done","claimant":{"id":"x","pid":7},"policy":"rerun","attempt":1}` + "\n" + `schedule {"fingerprint":"f","text":"* * * * *","at":9}`)
	f.Add(`runs [{"token":1,"holder":{"id":"cc","host":"h","pid":1,"user":"u"},"state":"done","exit":0,"note":"n"}]` + "\n" + `refused ["a","b"]`)
	f.Add(`once [{"key":"d","state":"lost","claimant":{"id":"cc","host":"","pid":0,"user":""}}]` + "\n" + `break {"token":7,"by":{"id":"x"},"at":9}`)
	f.Add(`former [{"fingerprint":"a","text":"b","by":{"id":"x"},"at":1}]` + "\n" + `orders ["zz"]`)
	f.Add("token seven")
	f.Add("runs null\nonce {}\nbreak null")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := fields(text).record()
		if err != nil {
			return
		}
		again, err := hashOf(r).record()
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// FuzzReplies: whatever a script's answer says, it is read or refused, and what was read is a state that can be decided on.
func FuzzReplies(f *testing.F) {
	add := func(elements ...any) {
		text, err := json.Marshal(elements)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	add("n", "state", "0", "1790000001000", "h|7", "100", []any{"job", "a", "token", "7", "version", "v"}, []any{"identity", "a:b", "epoch", "e"},
		"a:b", "7.0.15", "100", "0", "-1", "")
	add("n", "state", "1", "1790000001000", "", "-2", []any{}, []any{}, "a:b", "7.0.15", "100", "3", "-1", "# Commandstats\r\ncmdstat_flushall:calls=1,")
	add("n", "done", "0", "1790000001000", "1790000016000", "2")
	s, err := newStore("redis://127.0.0.1:1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var elements []any
		if json.Unmarshal([]byte(text), &elements) != nil {
			return
		}
		now, err := s.state("job", reply{elements})
		if (now == nil) == (err == nil) {
			t.Fatalf("%+v, %v", now, err)
		}
		if err != nil {
			return
		}
		if v := now.View(backends.Request{}); v.Lease != nil && (v.Lease.Holder == "" || v.Lease.Token <= 0) || v.Quarantine < 0 {
			t.Errorf("%+v", v)
		}
	})
}
