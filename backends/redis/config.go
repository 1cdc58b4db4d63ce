package redis

import (
	"errors"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

const (
	defaultPrefix = "leaderrun"
	longestHint   = "use a shorter TTL; or ?longest-ttl=DURATION in the backend URL raises it, on every host; after the store was lost nobody runs for so long"
)

// config is what a backend URL says.
type config struct {
	redisurl.Target

	prefix   string
	replicas int // how many must acknowledge; -1: as many as were ever seen
	longest  time.Duration
}

var knownOptions = backendurl.Options[config]{
	"prefix": backendurl.Prefix(func(c *config) *string { return &c.prefix }),
	"replicas": {Help: "how many replicas must acknowledge, less than were ever seen", Set: func(c *config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 100 {
			return errors.New("it is not a number from 0 to 100")
		}
		c.replicas = n
		return nil
	}},
	"longest-ttl": backendurl.LongestTTL(func(c *config) *time.Duration { return &c.longest }),
}

// parseURL reads a backend URL. No error here shows any part of the URL that a password may be in.
func parseURL(raw string) (*config, error) {
	c := &config{prefix: defaultPrefix, replicas: -1, longest: backendurl.DefaultLongestTTL}
	if err := redisurl.Parse(raw, c, func(c *config) *redisurl.Target { return &c.Target }, knownOptions); err != nil {
		return nil, err
	}
	return c, nil
}

// required is how many replicas must acknowledge a step, when as many as seen were connected at most.
func (c *config) required(seen int) int {
	if c.replicas >= 0 {
		return c.replicas
	}
	return c.safe(seen)
}

// safe is how many would have to without ?replicas=.
func (c *config) safe(seen int) int {
	if c.Kind != redisurl.Single {
		return max(seen, 1)
	}
	return seen
}
