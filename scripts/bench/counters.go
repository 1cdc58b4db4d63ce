package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// redis is a connection to a server, to ask it what others do.
type redis struct {
	conn  net.Conn
	reply *bufio.Reader
	asked int
}

// counters are what a Redis has counted, without what was asked here.
type counters struct {
	commands    int // of clients and of scripts
	scripts     int
	requests    int // of clients
	connections int
}

func dialRedis(addr string) (*redis, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &redis{conn: conn, reply: bufio.NewReader(conn)}, nil
}

// ask makes a request that is answered by a text. See the Redis protocol: "$LENGTH\r\nTEXT\r\n".
func (r *redis) ask(request string) (string, error) {
	if _, err := io.WriteString(r.conn, request+"\r\n"); err != nil {
		return "", err
	}
	head, err := r.reply.ReadString('\n')
	if err != nil {
		return "", err
	}
	length, err := strconv.Atoi(strings.Trim(head, "$\r\n"))
	if err != nil {
		return "", fmt.Errorf("%s: %q", request, head)
	}
	text := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(r.reply, text); err != nil {
		return "", err
	}
	r.asked++
	return string(text), nil
}

func (r *redis) counters() (c counters, err error) {
	asked := r.asked
	text, err := r.ask("INFO everything")
	if err != nil {
		return c, err
	}
	c.commands, c.connections = -asked, -1
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
			c.requests += calls
		case "cmdstat_subscribe", "cmdstat_unsubscribe", "cmdstat_ping", "cmdstat_hello", "cmdstat_select", "cmdstat_auth",
			"cmdstat_wait", "cmdstat_script|load": // no script of ours calls them
			c.requests += calls
		}
	}
	return c, nil
}
