package rpc

import "context"

// Status is what a member says about itself. A member older than what a field needs leaves it zero.
type Status struct {
	Header  Header
	Version string // like 3.6.16
	Leader  uint64 // the member that it follows; 0: it knows none
	Term    uint64

	Committed, Applied uint64   // how far the log is that it knows, and how much of it its store has. Since 3.4
	Errors             []string // the alarms of the cluster, like "memberID:1 alarm:NOSPACE ", and "no leader". Since 3.4
	Learner            bool     // copies the log and serves nobody. Since 3.4

	Size, InUse, Quota int64 // of the database, bytes; Quota since 3.6
}

// Status asks the member about itself. Like every request it is refused by one that knows no leader.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, "Maintenance/Status", nil, s.decode)
	return s, err
}

func (s *Status) decode(b []byte) error { // StatusResponse
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.message(s.Header.decode)
		case 2:
			return v.string(&s.Version)
		case 3:
			return v.int64(&s.Size)
		case 4:
			return v.uint64(&s.Leader)
		case 5:
			return v.uint64(&s.Committed)
		case 6:
			return v.uint64(&s.Term)
		case 7:
			return v.uint64(&s.Applied)
		case 8:
			text, err := another(&s.Errors, mostElements)
			if err != nil {
				return err
			}
			return v.string(text)
		case 9:
			return v.int64(&s.InUse)
		case 10:
			return v.bool(&s.Learner)
		case 12:
			return v.int64(&s.Quota)
		}
		return nil
	})
}

// Member is a member of a cluster, whether or not it runs.
type Member struct {
	ID      uint64
	Name    string // "": it has not started yet
	Learner bool
}

// Members lists the members of the cluster.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var all []Member
	err := c.ask(ctx, "Cluster/MemberList", nil, func(b []byte) error { // MemberListRequest, MemberListResponse
		return decode(b, func(field uint64, v value) error {
			if field != 2 {
				return nil
			}
			m, err := another(&all, mostElements)
			if err != nil {
				return err
			}
			return v.message(m.decode)
		})
	})
	return all, err
}

func (m *Member) decode(b []byte) error { // Member
	return decode(b, func(field uint64, v value) error {
		switch field {
		case 1:
			return v.uint64(&m.ID)
		case 2:
			return v.string(&m.Name)
		case 5:
			return v.bool(&m.Learner)
		}
		return nil
	})
}
