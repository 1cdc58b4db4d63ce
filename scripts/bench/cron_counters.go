package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// redis is a connection to a server, to ask it what others do.
type redis struct {
	conn  net.Conn
	reply *bufio.Reader
	asked int
}

// counters are what a server has counted, without what was asked here.
type counters struct {
	commands    int // of clients and of scripts
	scripts     int
	connections int
}

func dialRedis(addr string) (*redis, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &redis{conn: conn, reply: bufio.NewReader(conn)}, nil
}

// counters asks for INFO. See the Redis protocol: "$LENGTH\r\nTEXT\r\n".
func (r *redis) counters() (c counters, err error) {
	if _, err := io.WriteString(r.conn, "INFO everything\r\n"); err != nil {
		return c, err
	}
	head, err := r.reply.ReadString('\n')
	if err != nil {
		return c, err
	}
	length, err := strconv.Atoi(strings.Trim(head, "$\r\n"))
	if err != nil {
		return c, fmt.Errorf("INFO: %q", head)
	}
	text := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(r.reply, text); err != nil {
		return c, err
	}
	c.commands, c.connections = -r.asked, -1
	r.asked++
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "total_commands_processed":
			n, _ := strconv.Atoi(value)
			c.commands += n
		case "connected_clients":
			n, _ := strconv.Atoi(value)
			c.connections += n
		case "cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall":
			var n int
			_, _ = fmt.Sscanf(value, "calls=%d", &n)
			c.scripts += n
		}
	}
	return c, nil
}

// ownCPU returns what the threads of a process have spent, to the microsecond. Those that have ended do not count.
func ownCPU(pid int) (total time.Duration, err error) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if len(files) == 0 {
		return 0, fmt.Errorf("no process %d", pid)
	}
	for _, file := range files {
		var ns int64
		text, _ := os.ReadFile(file)
		_, _ = fmt.Sscan(string(text), &ns)
		total += time.Duration(ns)
	}
	return total, nil
}

// treeCPU returns what a process has spent, and all below it that have been waited for: see proc_pid_stat(5).
func treeCPU(pid int) (time.Duration, error) {
	const (
		first, fields = 11, 4                 // utime, stime, cutime and cstime, counted from behind the name
		jiffy         = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(words) < first+fields {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	total := 0
	for _, word := range words[first : first+fields] {
		n, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return time.Duration(total) * jiffy, nil
}
