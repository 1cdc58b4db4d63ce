package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// redis is a connection to a server, to ask it what others do.
type redis struct {
	*goredis.Conn
	asked int
}

// counters are what a Redis has counted, without what was asked here.
type counters struct {
	commands    int // of clients and of scripts
	scripts     int
	connections int
}

func dialRedis(addr string) *redis {
	return &redis{Conn: goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, PoolSize: 1}).Conn()}
}

func (r *redis) counters() (c counters, err error) {
	text, err := r.Info(context.Background(), "everything").Result()
	if err != nil {
		return c, err
	}
	c.commands, c.connections = -r.asked, -1
	r.asked++
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, _ := strconv.Atoi(value)
		var calls int
		_, _ = fmt.Sscanf(value, "calls=%d", &calls)
		switch name {
		case "total_commands_processed":
			c.commands += number
		case "connected_clients":
			c.connections += number
		case "cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall":
			c.scripts += calls
		}
	}
	return c, nil
}
