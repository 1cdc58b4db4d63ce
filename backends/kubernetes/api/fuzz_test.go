package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

// FuzzReply: whatever a reply or an event is, it is refused, or a Lease that is written as it was read.
func FuzzReply(f *testing.F) {
	const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"leaderrun-job","namespace":"ns","uid":"b5a1","resourceVersion":"123",` +
		`"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"leaderrun/prefix":"leaderrun"},"annotations":{"leaderrun/record":"{\"job\":\"job\"}"},` +
		`"managedFields":[{"manager":"leaderrun","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:leaderrun/record":{}}}}}]},` +
		`"spec":{"holderIdentity":"h_1","leaseDurationSeconds":15,"acquireTime":"2026-01-02T03:04:05.000000Z","renewTime":"2026-01-02T03:04:05.000000Z","leaseTransitions":3}}`
	for _, text := range []string{
		lease, "null", "{}", `{"metadata":null}`,
		`{"kind":"LeaseList","metadata":{"continue":"x"},"items":[null,` + lease + `]}`,
		`{"type":"MODIFIED","object":` + lease + `}`, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`, `{"type":"BOOKMARK","object":null}`,
		`{"kind":"Status","status":"Failure","message":"leases is forbidden","reason":"Forbidden","details":{"kind":"leases"},"code":403}`,
	} {
		f.Add([]byte(text))
	}
	c := New(Config{Server: "https://h"})
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := c.event(text); err == nil && e.Lease != nil && !e.Lease.isNamed() {
			t.Fatalf("an event of %+v", e.Lease)
		}
		if e := c.refusal(403, text); len(e.Error()) > 2000 {
			t.Fatalf("%d bytes of an error", len(e.Error()))
		}
		if httplimit.Weigh(text) != nil {
			return
		}
		l := new(Lease)
		if json.Unmarshal(text, l) != nil {
			return
		}
		l.WrittenBy("leaderrun/record")
		written, err := json.Marshal(l)
		if err != nil {
			return // a time that cannot be written
		}
		again := new(Lease)
		if err := json.Unmarshal(written, again); err != nil {
			t.Fatalf("%s cannot be read: %v", written, err)
		}
		if again.Name != l.Name || again.UID != l.UID || again.ResourceVersion != l.ResourceVersion || again.Spec.HolderIdentity != l.Spec.HolderIdentity ||
			len(l.Annotations) > 0 && !reflect.DeepEqual(again.Annotations, l.Annotations) || again.Spec.LeaseTransitions != l.Spec.LeaseTransitions {
			t.Fatalf("read  %+v\nagain %+v", l, again)
		}
	})
}
