package rpc

// The messages, with the field numbers of etcd's api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto (module
// go.etcd.io/etcd/api/v3). Numbers never change their meaning within v3. What is left out here is not sent, or
// is skipped when it comes.

func (r *Range) encode() encoder { // RangeRequest
	var e encoder
	e.bytes(1, r.Key)
	e.bytes(2, r.End)
	e.int(3, r.Limit)
	e.bool(8, r.KeysOnly)
	return e // serializable (7) stays false: the answer is linearizable
}

func (p *Put) encode() encoder { // PutRequest
	var e encoder
	e.bytes(1, p.Key)
	e.bytes(2, p.Value)
	e.int(3, p.Lease)
	return e
}

func (o *Op) encode() encoder { // RequestOp
	var e encoder
	switch {
	case o.Range != nil:
		e.message(1, o.Range.encode())
	case o.Put != nil:
		e.message(2, o.Put.encode())
	default:
		var d encoder // DeleteRangeRequest
		d.bytes(1, o.Delete)
		e.message(3, d)
	}
	return e
}

func (c *Compare) encode() encoder { // Compare; result (1) is EQUAL, 0
	var e encoder
	e.int(2, int64(c.Of))
	e.bytes(3, c.Key)
	switch c.Of {
	case CreateRevision:
		e.member(5, c.Value)
	case ModRevision:
		e.member(6, c.Value)
	case LeaseID:
		e.member(8, c.Value)
	}
	return e
}

func (t *Txn) encode() encoder { // TxnRequest
	var e encoder
	for i := range t.If {
		e.message(1, t.If[i].encode())
	}
	for i := range t.Then {
		e.message(2, t.Then[i].encode())
	}
	for i := range t.Else {
		e.message(3, t.Else[i].encode())
	}
	return e
}

func encodeGrant(id, ttl int64) encoder { // LeaseGrantRequest
	var e encoder
	e.int(1, ttl)
	e.int(2, id)
	return e
}

func encodeLease(id int64) encoder { // LeaseRevokeRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest
	var e encoder
	e.int(1, id)
	return e
}

func encodeWatch(key, end []byte, from int64) encoder { // WatchRequest with a WatchCreateRequest
	var c, e encoder
	c.bytes(1, key)
	c.bytes(2, end)
	c.int(3, from)
	e.message(1, c)
	return e
}

func encodeAuthenticate(user, password string) encoder { // AuthenticateRequest
	var e encoder
	e.bytes(1, []byte(user))
	e.bytes(2, []byte(password))
	return e
}

func (h *Header) decode(b []byte) error { // ResponseHeader
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.uint64(&h.ClusterID)
		case 2:
			return v.uint64(&h.MemberID)
		case 3:
			return v.int64(&h.Revision)
		case 4:
			return v.uint64(&h.RaftTerm)
		}
		return nil
	})
}

func (kv *KeyValue) decode(b []byte) error { // mvccpb.KeyValue
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.data(&kv.Key)
		case 2:
			return v.int64(&kv.CreateRevision)
		case 3:
			return v.int64(&kv.ModRevision)
		case 4:
			return v.int64(&kv.Version)
		case 5:
			return v.data(&kv.Value)
		case 6:
			return v.int64(&kv.Lease)
		}
		return nil
	})
}

func (r *RangeReply) decode(b []byte) error { // RangeResponse
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.message(r.Header.decode)
		case 2:
			kv, err := another(&r.KVs, mostElements)
			if err != nil {
				return err
			}
			return v.message(kv.decode)
		case 3:
			return v.bool(&r.More)
		}
		return nil
	})
}

func (r *TxnReply) decode(b []byte) error { // TxnResponse
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.message(r.Header.decode)
		case 2:
			return v.bool(&r.Succeeded)
		case 3:
			return v.message(r.decodeOp)
		}
		return nil
	})
}

func (r *TxnReply) decodeOp(b []byte) error { // ResponseOp; what a put or a deletion answers says nothing new
	return decode(b, func(field uint64, v value) error {
		if field != 1 {
			return nil
		}
		reply, err := another(&r.Ranges, mostAnswers)
		if err != nil {
			return err
		}
		return v.message(reply.decode)
	})
}

// decode reads a LeaseGrantResponse, LeaseKeepAliveResponse or LeaseTimeToLiveResponse, whose first three
// fields are the same. The fourth is the granted TTL in the last one alone (4 is an error's text in the first,
// which no server sends).
func (r *LeaseReply) decode(b []byte) error {
	return decode(b, func(field uint64, v value) error {
		switch {
		case field == 1:
			return v.message(r.Header.decode)
		case field == 2:
			return v.int64(&r.ID)
		case field == 3:
			return v.int64(&r.TTL)
		case field == 4 && v.kind == kindVarint:
			return v.int64(&r.Granted)
		}
		return nil
	})
}

// watchMessage is a WatchResponse.
type watchMessage struct {
	WatchReply
	canceled        bool
	compactRevision int64
	reason          string
}

func (w *watchMessage) decode(b []byte) error {
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.message(w.Header.decode)
		case 3:
			return v.bool(&w.Created)
		case 4:
			return v.bool(&w.canceled)
		case 5:
			return v.int64(&w.compactRevision)
		case 6:
			return v.string(&w.reason)
		case 11:
			e, err := another(&w.Events, mostElements)
			if err != nil {
				return err
			}
			return v.message(e.decode)
		}
		return nil
	})
}

func (e *Event) decode(b []byte) error { // mvccpb.Event
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.bool(&e.Deleted) // PUT is 0, DELETE is 1
		case 2:
			return v.message(e.KV.decode)
		}
		return nil
	})
}

// second reads the string that field 2 is in an AuthenticateResponse (token) and a StatusResponse (version).
func second(b []byte) (s string, err error) {
	err = decode(b, func(field uint64, v value) error {
		if field == 2 {
			return v.string(&s)
		}
		return nil
	})
	return s, err
}
