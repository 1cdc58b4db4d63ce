package backends

import "testing"

// left is a state that is newer the larger it is.
type left int

func (left) View(Request) View          { return View{} }
func (l left) Newer(than Snapshot) bool { return than.(left) < l }
func (left) Complete(*Grant)            {}

func TestLeaseCache(t *testing.T) {
	t.Parallel()
	c := NewLeaseCache(left(3))
	if CacheOf(Grant{Private: c}) != c || CacheOf(Grant{Private: "another's"}).Last() != nil || CacheOf(Grant{}).Last() != nil {
		t.Error("a grant has its own cache, and no other")
	}
	for _, x := range []struct {
		what          string
		was, is, want Snapshot
	}{
		{"a renewal", left(3), left(4), left(4)},
		{"one beside it that was sent later", left(3), left(6), left(6)},
		{"one that was sent earlier and is answered later", left(3), left(5), left(6)},
		{"one beside another that is not answered", left(4), nil, left(6)},
		{"one after a failover to a store that was behind", left(6), left(2), left(2)},
		{"one whose outcome is not known", left(2), nil, nil},
		{"the next one", left(2), left(3), left(3)},
	} {
		c.Saw(x.was, x.is)
		if last := c.Last(); last != x.want {
			t.Errorf("%s: %v is known, want %v", x.what, last, x.want)
		}
	}
}
