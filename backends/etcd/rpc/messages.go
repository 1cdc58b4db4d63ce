package rpc

// The messages, with the field numbers of etcd's api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto (module
// go.etcd.io/etcd/api/v3). Numbers never change their meaning within v3. What is left out here is not sent, or
// is skipped when it comes.

func (r *Range) encode() encoder { // RangeRequest; serializable (7) stays false: the answer is linearizable
	return encoder{}.bytes(1, r.Key).bytes(2, r.End).int(3, r.Limit).bool(8, r.KeysOnly)
}

func (p *Put) encode() encoder { // PutRequest
	return encoder{}.bytes(1, p.Key).bytes(2, p.Value).int(3, p.Lease)
}

func (o *Op) encode() encoder { // RequestOp
	switch {
	case o.Range != nil:
		return encoder{}.message(1, o.Range.encode())
	case o.Put != nil:
		return encoder{}.message(2, o.Put.encode())
	}
	return encoder{}.message(3, encoder{}.bytes(1, o.Delete)) // DeleteRangeRequest
}

func (c *Compare) encode() encoder { // Compare; result (1) is EQUAL, 0; the member for each target is four numbers further
	return encoder{}.int(2, int64(c.Of)).bytes(3, c.Key).member(4+uint64(c.Of), c.Value) //nolint:gosec // a small number
}

func (t *Txn) encode() encoder { // TxnRequest
	var e encoder
	for i := range t.If {
		e = e.message(1, t.If[i].encode())
	}
	for i := range t.Then {
		e = e.message(2, t.Then[i].encode())
	}
	for i := range t.Else {
		e = e.message(3, t.Else[i].encode())
	}
	return e
}

func encodeGrant(id, ttl int64) encoder { // LeaseGrantRequest
	return encoder{}.int(1, ttl).int(2, id)
}

func encodeLease(id int64) encoder { // LeaseRevokeRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest
	return encoder{}.int(1, id)
}

func encodeWatch(key, end []byte) encoder { // WatchRequest with a WatchCreateRequest
	return encoder{}.message(1, encoder{}.bytes(1, key).bytes(2, end))
}

func encodeAuthenticate(user, password string) encoder { // AuthenticateRequest
	return encoder{}.bytes(1, []byte(user)).bytes(2, []byte(password))
}

func (h *Header) decode(b []byte) error { // ResponseHeader
	return decode(b, []field{1: integer(&h.ClusterID), 2: integer(&h.MemberID), 3: integer(&h.Revision)})
}

func (kv *KeyValue) decode(b []byte) error { // mvccpb.KeyValue
	return decode(b, []field{
		1: text(&kv.Key), 2: integer(&kv.CreateRevision), 3: integer(&kv.ModRevision), 5: text(&kv.Value), 6: integer(&kv.Lease),
	})
}

func (r *RangeReply) decode(b []byte) error { // RangeResponse
	return decode(b, []field{1: message(r.Header.decode), 2: list(&r.KVs, mostElements, (*KeyValue).decode), 3: flag(&r.More)})
}

func (r *TxnReply) decode(b []byte) error { // TxnResponse
	return decode(b, []field{1: message(r.Header.decode), 2: flag(&r.Succeeded), 3: message(r.decodeOp)})
}

func (r *TxnReply) decodeOp(b []byte) error { // ResponseOp; what a put or a deletion answers says nothing new
	return decode(b, []field{1: list(&r.Ranges, mostAnswers, (*RangeReply).decode)})
}

func (r *LeaseReply) decode(b []byte) error { // LeaseGrantResponse, LeaseKeepAliveResponse, LeaseTimeToLiveResponse
	return decode(b, []field{1: message(r.Header.decode), 2: integer(&r.ID), 3: integer(&r.TTL)})
}

// watchMessage is a WatchResponse.
type watchMessage struct {
	WatchReply
	canceled bool
	reason   string
}

func (w *watchMessage) decode(b []byte) error {
	return decode(b, []field{
		1: message(w.Header.decode), 3: flag(&w.Created), 4: flag(&w.canceled), 6: text(&w.reason), 11: list(&w.Events, mostElements, (*Event).decode),
	})
}

func (e *Event) decode(b []byte) error { // mvccpb.Event; PUT is 0, DELETE is 1
	return decode(b, []field{1: flag(&e.Deleted), 2: message(e.KV.decode)})
}

func (s *Status) decode(b []byte) error { // StatusResponse
	return decode(b, []field{
		1: message(s.Header.decode), 2: text(&s.Version), 3: integer(&s.Size), 4: integer(&s.Leader), 5: integer(&s.Committed),
		6: integer(&s.Term), 7: integer(&s.Applied), 8: list(&s.Errors, mostElements, set[string]), 10: flag(&s.Learner), 12: integer(&s.Quota),
	})
}

func (m *Member) decode(b []byte) error { // Member
	return decode(b, []field{5: flag(&m.Learner)})
}

func decodeToken(b []byte) (token string, err error) { // AuthenticateResponse
	err = decode(b, []field{2: text(&token)})
	return token, err
}
