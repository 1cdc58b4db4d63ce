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
// and read again, and its lists are no longer than they may be.
func FuzzRecord(f *testing.F) {
	f.Add("job a\ntoken 1789999980002\nholder cc\nhost h\npid 2\nuser u\nttl 15000\nuntil 1790000001000\nbeat 2\nreleased 1789999980002")
	f.Add("tick 60\ntick_state done\ntick_holder x\ntick_pid 7\ntick_policy rerun\ntick_attempt 1\nfingerprint f\nschedule * * * * *\nschedule_at 9")
	f.Add(`runs [{"token":1,"holder":{"id":"cc","host":"h","pid":1,"user":"u"},"state":"done","exit":0,"note":"n"}]` + "\n" + `refused ["a","b"]`)
	f.Add(`once [{"key":"d","state":"lost","claimant":{"id":"cc","host":"","pid":0,"user":""}}]` + "\n" + `break {"token":7,"by":{"id":"x"},"at":9}`)
	f.Add(`former [{"fingerprint":"a","text":"b","by":{"id":"x"},"at":1}]` + "\n" + `orders ["zz"]`)
	f.Add("token seven")
	f.Add("runs null\nonce {}\nbreak null")
	f.Add("runs [" + strings.Repeat("{},", maxEntries) + "{}]")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := fields(text).record()
		if len(r.Runs) > maxEntries || len(r.Once) > maxEntries || len(r.Former) > maxEntries || len(r.Refused) > maxEntries || len(r.Orders) > maxEntries {
			t.Errorf("a long list")
		}
		if err != nil {
			return
		}
		h, err := hashOf(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := h.record()
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// FuzzReplies: whatever the scripts' answers say, they are read or refused, and a grant has a token.
func FuzzReplies(f *testing.F) {
	add := func(what int, elements ...any) {
		text, err := json.Marshal(elements)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(what, string(text))
	}
	add(0, "n", "h", "0", `{"verdict":"granted","token":7,"tick":60,"attempt":1,"lost":[{"tick":1,"state":"missed","claimant":{"id":""}}]}`)
	add(0, "n", "h", "0", `{"verdict":"held","holder":{"id":"x"},"token":7,"wait":9,"seen":{"token":7,"beat":1},"at":1,"lease":2}`)
	add(1, "n", "h", "0", "renewed", "7", `{"token":7}`)
	add(1, "n", "h", "0", "lost", "7", "")
	add(2, "n", "0", "1790000001000", "h", "7", "100", "0", []any{"job", "a", "token", "7"}, "id", "0")
	f.Fuzz(func(t *testing.T, what int, text string) {
		var elements []any
		if json.Unmarshal([]byte(text), &elements) != nil {
			return
		}
		g := backends.Grant{Claim: claim("job", long), Token: 7}
		switch what {
		case 0:
			if a, ok, err := claimReply(elements, g.Claim); ok && (err != nil || a.(backends.Grant).Token <= 0) {
				t.Errorf("%+v, %v", a, err)
			}
		case 1:
			if _, ok, err := renewReply(elements, g); ok && err != nil {
				t.Error(err)
			}
		case 2:
			if s, err := readSight(elements, "record"); (s == nil) == (err == nil) {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}
