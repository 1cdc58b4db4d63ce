package backendurl

import (
	"errors"
	"slices"
	"testing"
)

// TestEachHostOnce: hazard: while others go from host to host, a request tries one twice, and another never.
func TestEachHostOnce(t *testing.T) {
	hosts := []string{"a", "b", "c"}
	r := NewRotation(hosts)
	var failed Unreached
	var tried []string
	for len(tried) <= len(hosts) {
		host, left := r.Next(&failed)
		if left != len(hosts)-len(tried) {
			t.Errorf("after %v there are %d left", tried, left)
		}
		if left == 0 {
			break
		}
		tried = append(tried, host)
		for _, others := range hosts {
			r.Leave(others)
		}
		failed.Failed(host, errors.New("dead"))
		r.Leave(host)
	}
	if !slices.Equal(tried, hosts) {
		t.Errorf("tried %v, want %v", tried, hosts)
	}
}

// TestLeave: two requests that meet the same fault go on by one host, not by two.
func TestLeave(t *testing.T) {
	r := NewRotation([]string{"a", "b", "c"})
	if !r.Leave("a") || r.Leave("a") || r.Current() != "b" {
		t.Errorf("the current host is %s, want b", r.Current())
	}
	r.Leave("b")
	r.Leave("c")
	if r.Current() != "a" {
		t.Errorf("after the last host comes %s, want a", r.Current())
	}
	if alone := NewRotation([]string{"a"}); !alone.Leave("a") || alone.Current() != "a" {
		t.Error("one host is left for another")
	}
}
