package kubernetes

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// olderPutBack: an operator puts back what the Lease was when a candidate saw it first. Its holder lives, and has
// renewed since: what the candidate has seen must not count from back then.
func olderPutBack(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	c := newClaim("job")
	seen := w.Refused(w.other, c, backends.Held).Seen
	older := w.lease("job")
	w.Renew(w.d, g)
	now := w.lease("job")
	older.ResourceVersion = now.ResourceVersion
	if _, err := w.operator.client.Update(w.Context(), older); err != nil {
		w.Fatal(err)
	}
	c.Seen = seen
	c.Seen.For = time.Hour
	w.Refused(w.other, c, backends.Held)
	w.Renew(w.d, g)
	w.Finish(w.d, g)
}

// notedPutBack: as olderPutBack, with a Lease that was last written by a candidate's note, which says what the beat was.
// All of it is put back, or that annotation alone.
func notedPutBack(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	c := newClaim("job")
	c.Tick, c.OnLost, c.MaxAttempts = time.Now().Unix()-3600, backends.Skip, 1
	seen := w.Refused(w.other, c, backends.Held).Seen
	seen.For = time.Hour
	noted := w.server.API(w, "GET", w.path("job"), "")
	beat := w.lease("job").Annotations[beatKey]
	if beat == "" {
		w.Fatal("a note says nothing of the beat")
	}
	for _, putBack := range []func(version string){
		func(now string) {
			before := w.versionOf(noted)
			w.server.API(w, "PUT", w.path("job"), strings.Replace(noted, `"resourceVersion":"`+before+`"`, `"resourceVersion":"`+now+`"`, 1))
		},
		func(string) { w.patch("job", `{"metadata":{"annotations":{"`+beatKey+`":"`+beat+`"}}}`) },
	} {
		w.Renew(w.d, g)
		putBack(w.lease("job").ResourceVersion)
		if now := w.lease("job").Annotations[beatKey]; now != beat {
			w.Fatalf("put back %q, want %q", now, beat)
		}
		again := newClaim("job")
		again.Seen = seen
		w.Refused(w.other, again, backends.Held)
	}
	w.Renew(w.d, g)
	w.Finish(w.d, g)
}

func (w *world) versionOf(lease string) string {
	w.Helper()
	l := new(api.Lease)
	if err := json.Unmarshal([]byte(lease), l); err != nil {
		w.Fatal(err)
	}
	return l.ResourceVersion
}
