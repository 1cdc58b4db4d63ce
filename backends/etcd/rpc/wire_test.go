package rpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"
)

// The oracle of the codec is the code that etcd's own client and server use.

type generated interface {
	Marshal() ([]byte, error)
	Unmarshal(b []byte) error
}

func TestWhatIsSentIsWhatEtcdWouldSend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRange(t)
		sent(t, r.encode(), pbRange(r))

		var txn Txn
		var pb etcdserverpb.TxnRequest
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			c := Compare{Key: key(t), Of: rapid.SampledFrom([]Target{CreateRevision, ModRevision, LeaseID}).Draw(t, "target"), Value: number(t)}
			txn.If = append(txn.If, c)
			pb.Compare = append(pb.Compare, pbCompare(c))
		}
		for range rapid.IntRange(0, 3).Draw(t, "then") {
			op, as := drawOp(t)
			txn.Then, pb.Success = append(txn.Then, op), append(pb.Success, as)
		}
		for range rapid.IntRange(0, 3).Draw(t, "else") {
			op, as := drawOp(t)
			txn.Else, pb.Failure = append(txn.Else, op), append(pb.Failure, as)
		}
		sent(t, txn.encode(), &pb)

		id, ttl := number(t), number(t)
		sent(t, encodeGrant(id, ttl), &etcdserverpb.LeaseGrantRequest{ID: id, TTL: ttl})
		sent(t, encodeLease(id), &etcdserverpb.LeaseRevokeRequest{ID: id})
		sent(t, encodeLease(id), &etcdserverpb.LeaseKeepAliveRequest{ID: id})
		sent(t, encodeLease(id), &etcdserverpb.LeaseTimeToLiveRequest{ID: id})
		user, password := rapid.String().Draw(t, "user"), rapid.String().Draw(t, "password")
		sent(t, encodeAuthenticate(user, password), &etcdserverpb.AuthenticateRequest{Name: user, Password: password})
		sent(t, encodeWatch(r.Key, r.End), &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{Key: r.Key, RangeEnd: r.End},
		}})
	})
}

// sent compares bytes: both sides write fields in the order of their numbers, and leave out zeros.
func sent(t *rapid.T, ours []byte, theirs generated) {
	t.Helper()
	want, err := theirs.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ours, want) {
		t.Fatalf("%T\n ours %x\nwants %x", theirs, ours, want)
	}
}

func TestWhatEtcdSendsIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, pbh := drawHeader(t)
		r, pbr := drawRangeReply(t)
		var gotRange RangeReply
		read(t, pbr, gotRange.decode)
		same(t, gotRange, r)

		txn, pb := TxnReply{Header: h, Succeeded: rapid.Bool().Draw(t, "ok")}, &etcdserverpb.TxnResponse{Header: pbh}
		pb.Succeeded = txn.Succeeded
		for range rapid.IntRange(0, 4).Draw(t, "ops") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				pb.Responses = append(pb.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{Header: pbh}}})
			case 1:
				pb.Responses = append(pb.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &etcdserverpb.DeleteRangeResponse{Deleted: number(t)}}})
			default:
				r, pbr := drawRangeReply(t)
				txn.Ranges = append(txn.Ranges, r)
				pb.Responses = append(pb.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: pbr}})
			}
		}
		var gotTxn TxnReply
		read(t, pb, gotTxn.decode)
		same(t, gotTxn, txn)

		l := LeaseReply{Header: h, ID: number(t), TTL: number(t)}
		var granted, kept, left LeaseReply
		read(t, &etcdserverpb.LeaseGrantResponse{Header: pbh, ID: l.ID, TTL: l.TTL, Error: rapid.String().Draw(t, "error")}, granted.decode)
		same(t, granted, l)
		read(t, &etcdserverpb.LeaseKeepAliveResponse{Header: pbh, ID: l.ID, TTL: l.TTL}, kept.decode)
		same(t, kept, l)
		read(t, &etcdserverpb.LeaseTimeToLiveResponse{Header: pbh, ID: l.ID, TTL: l.TTL, GrantedTTL: number(t), Keys: [][]byte{key(t)}}, left.decode)
		same(t, left, l)

		token := rapid.String().Draw(t, "token")
		read(t, &etcdserverpb.AuthenticateResponse{Header: pbh, Token: token}, func(b []byte) error {
			got, err := decodeToken(b)
			same(t, got, token)
			return err
		})
	})
}

func TestWhatAWatchSendsIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, pbh := drawHeader(t)
		w := watchMessage{
			WatchReply: WatchReply{Header: h, Created: rapid.Bool().Draw(t, "created")}, canceled: rapid.Bool().Draw(t, "canceled"),
			reason: rapid.String().Draw(t, "reason"),
		}
		pb := &etcdserverpb.WatchResponse{
			Header: pbh, WatchId: number(t), Created: w.Created, Canceled: w.canceled, CompactRevision: number(t),
			CancelReason: w.reason, Fragment: rapid.Bool().Draw(t, "fragment"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			kv, pbkv := drawKV(t)
			e, pbe := Event{Deleted: rapid.Bool().Draw(t, "deleted"), KV: kv}, &mvccpb.Event{Kv: pbkv, PrevKv: pbkv}
			if e.Deleted {
				pbe.Type = mvccpb.DELETE
			}
			w.Events, pb.Events = append(w.Events, e), append(pb.Events, pbe)
		}
		var got watchMessage
		read(t, pb, got.decode)
		if got.canceled != w.canceled || got.reason != w.reason {
			t.Fatalf("got %+v, want %+v", got, w)
		}
		same(t, got.WatchReply, w.WatchReply)
	})
}

// read marshals as the server does, with fields behind that nobody knows yet.
func read(t *rapid.T, from generated, decode func([]byte) error) {
	t.Helper()
	b, err := from.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	e := encoder(b)
	if rapid.Bool().Draw(t, "newer server") {
		e = e.member(1000, number(t)).bytes(1001, key(t)).key(1002, kindFixed32)
		e = append(e, 1, 2, 3, 4)
		e = e.key(1003, kindFixed64)
		e = append(e, 1, 2, 3, 4, 5, 6, 7, 8)
	}
	if err := decode(e); err != nil {
		t.Fatalf("%T: %v", from, err)
	}
}

func same(t *rapid.T, got, want any) {
	t.Helper()
	empty := cmp.Comparer(bytes.Equal) // the format does not tell nil from empty
	if d := cmp.Diff(want, got, empty); d != "" {
		t.Fatal(d)
	}
}

func key(t *rapid.T) []byte   { return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes") }
func number(t *rapid.T) int64 { return rapid.Int64().Draw(t, "number") }

func drawRange(t *rapid.T) Range {
	return Range{Key: key(t), End: key(t), Limit: number(t), KeysOnly: rapid.Bool().Draw(t, "keys only")}
}

func pbRange(r Range) *etcdserverpb.RangeRequest {
	return &etcdserverpb.RangeRequest{Key: r.Key, RangeEnd: r.End, Limit: r.Limit, KeysOnly: r.KeysOnly}
}

func pbCompare(c Compare) *etcdserverpb.Compare {
	pb := &etcdserverpb.Compare{Key: c.Key, Target: etcdserverpb.Compare_CREATE, TargetUnion: &etcdserverpb.Compare_CreateRevision{CreateRevision: c.Value}}
	switch c.Of {
	case LeaseID:
		pb.Target, pb.TargetUnion = etcdserverpb.Compare_LEASE, &etcdserverpb.Compare_Lease{Lease: c.Value}
	case ModRevision:
		pb.Target, pb.TargetUnion = etcdserverpb.Compare_MOD, &etcdserverpb.Compare_ModRevision{ModRevision: c.Value}
	}
	return pb
}

func drawOp(t *rapid.T) (Op, *etcdserverpb.RequestOp) {
	switch rapid.IntRange(0, 2).Draw(t, "op") {
	case 0:
		r := drawRange(t)
		return Op{Range: &r}, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: pbRange(r)}}
	case 1:
		p := Put{Key: key(t), Value: key(t), Lease: number(t)}
		return Op{Put: &p}, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{
			RequestPut: &etcdserverpb.PutRequest{Key: p.Key, Value: p.Value, Lease: p.Lease},
		}}
	default:
		k := key(t)
		return Op{Delete: k}, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: k},
		}}
	}
}

func drawHeader(t *rapid.T) (Header, *etcdserverpb.ResponseHeader) {
	h := Header{ClusterID: rapid.Uint64().Draw(t, "cluster"), MemberID: rapid.Uint64().Draw(t, "member"), Revision: number(t)}
	return h, &etcdserverpb.ResponseHeader{ClusterId: h.ClusterID, MemberId: h.MemberID, Revision: h.Revision, RaftTerm: rapid.Uint64().Draw(t, "term")}
}

func drawKV(t *rapid.T) (KeyValue, *mvccpb.KeyValue) {
	kv := KeyValue{Key: key(t), Value: key(t), CreateRevision: number(t), ModRevision: number(t), Lease: number(t)}
	return kv, &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: number(t), Lease: kv.Lease}
}

func drawRangeReply(t *rapid.T) (RangeReply, *etcdserverpb.RangeResponse) {
	h, pbh := drawHeader(t)
	r, pb := RangeReply{Header: h, More: rapid.Bool().Draw(t, "more")}, &etcdserverpb.RangeResponse{Header: pbh, Count: number(t)}
	pb.More = r.More
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		kv, pbkv := drawKV(t)
		r.KVs, pb.Kvs = append(r.KVs, kv), append(pb.Kvs, pbkv)
	}
	return r, pb
}

func TestMalformedMessages(t *testing.T) {
	for name, text := range map[string]string{
		"a key without a value":        "08",
		"field 0":                      "0001",
		"a number of eleven bytes":     "08ffffffffffffffffffff01",
		"a length beyond the message":  "0a05aabb",
		"a length beyond the address":  "0affffffffffffffffff01",
		"fixed32 cut off":              "bd3e0102",
		"the start of a group":         "0b",
		"kind 7":                       "0f00",
		"a header that is a number":    "0801",
		"a key in place of a number":   "1a00",
		"a malformed key in the reply": "12020a05",
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := new(RangeReply).decode(b); !errors.Is(err, errMalformed) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// FuzzDecode feeds what is no message to all that reads messages, and what is one to etcd's code, too.
func FuzzDecode(f *testing.F) {
	for _, m := range []generated{
		&etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}, Kvs: []*mvccpb.KeyValue{{Key: []byte("k"), Value: []byte("v")}}},
		&etcdserverpb.TxnResponse{Succeeded: true, Responses: []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{Count: 1}}}}},
		&etcdserverpb.WatchResponse{Created: true, Events: []*mvccpb.Event{{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("k")}}}},
		&etcdserverpb.LeaseTimeToLiveResponse{ID: -1, TTL: -1, GrantedTTL: 5},
		&etcdserverpb.StatusResponse{Version: "3.6.16", Leader: 1, Errors: []string{"memberID:1 alarm:NOSPACE "}},
	} {
		b, err := m.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var txn TxnReply
		var watch watchMessage
		_, _ = txn.decode(b), watch.decode(b)
		_, _ = new(LeaseReply).decode(b), new(Status).decode(b)
		if len(txn.Ranges) > mostAnswers || len(watch.Events) > mostElements {
			t.Fatalf("%d ranges, %d events", len(txn.Ranges), len(watch.Events))
		}
		var ours RangeReply
		err := ours.decode(b)
		var theirs etcdserverpb.RangeResponse
		if theirErr := theirs.Unmarshal(b); err == nil && theirErr == nil {
			if len(ours.KVs) != len(theirs.Kvs) || theirs.Header != nil && ours.Header.Revision != theirs.Header.Revision {
				t.Fatalf("ours %+v, theirs %+v", ours, theirs)
			}
		}
		s := &stream{ctx: t.Context(), reply: &http.Response{Body: io.NopCloser(bytes.NewReader(b))}, member: newMember("", nil), conn: new(connection)}
		for range 10 {
			if _, err := s.next(); err != nil {
				break
			}
		}
		s.place.Leave()
		_ = unescape(string(b))
	})
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "100%25": "100%", "%C3%A4": "ä", "%": "%", "%2": "%2", "%zz": "%zz", "%+1": "%+1", "a%0Ab": "a\nb",
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestTimeoutHasEightDigitsAtMost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "1m", 0: "1m", time.Millisecond: "1m", 98 * time.Second: "98000m", 27 * time.Hour: "97200000m", 28 * time.Hour: "99999999m",
	} {
		if got := timeout(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
