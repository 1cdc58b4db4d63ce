// Package discover stands in for github.com/hashicorp/go-discover in the Consul that tests start: as much of its API as
// Consul calls. The tests name the servers to join. The SDKs of fifteen clouds, by which the real one finds them, would be
// a third of what there is to compile.
package discover

import (
	"errors"
	"log"
)

var errNone = errors.New("this build knows no clouds")

// Provider finds the addresses of servers in a cloud.
type Provider interface {
	Addrs(args map[string]string, l *log.Logger) ([]string, error)
	Help() string
}

// Providers are the clouds that are known: none.
var Providers = map[string]Provider{}

// Discover finds nothing.
type Discover struct{}

// Option changes nothing.
type Option func(*Discover) error

// New never fails.
func New(...Option) (*Discover, error) { return &Discover{}, nil }

// WithUserAgent is of no consequence.
func WithUserAgent(string) Option { return nil }

// WithProviders is of no consequence.
func WithProviders(map[string]Provider) Option { return nil }

// Names returns none.
func (*Discover) Names() []string { return nil }

// Addrs always fails.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) { return nil, errNone }
