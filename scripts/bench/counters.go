package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// counter asks a server what it has counted. What is asked here does not count.
type counter interface {
	// requests returns how many requests clients have made. A message on a stream is one, too.
	requests() (int, error)
	// told returns how many clients are waiting to be told of a change.
	told() (int, error)
}

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

func (r *redis) requests() (int, error) {
	c, err := r.counters()
	return c.requests, err
}

func (r *redis) told() (int, error) {
	text, err := r.ask("CLIENT LIST TYPE pubsub")
	return strings.Count(text, "id="), err
}

// etcdCounter is the address of a server's metrics.
type etcdCounter string

func (c etcdCounter) requests() (int, error) {
	messages, err := scrape(http.DefaultClient, string(c), func(name string) bool { return strings.HasPrefix(name, "grpc_server_msg_received_total{") })
	if err != nil {
		return 0, err
	}
	ends, err := scrape(http.DefaultClient, string(c), func(name string) bool { // of streams: each was counted as a message
		return strings.HasPrefix(name, `grpc_server_handled_total{grpc_code="OK"`) && strings.Contains(name, `grpc_type="bidi_stream"`)
	})
	return messages - ends, err
}

func (c etcdCounter) told() (int, error) {
	return scrape(http.DefaultClient, string(c), func(name string) bool { return name == "etcd_debugging_mvcc_watcher_total" })
}

// etcdCounters are the counters of the members of a cluster.
type etcdCounters []etcdCounter

func (cs etcdCounters) requests() (int, error) { return cs.sum(etcdCounter.requests) }

func (cs etcdCounters) told() (int, error) { return cs.sum(etcdCounter.told) }

func (cs etcdCounters) sum(of func(etcdCounter) (int, error)) (sum int, err error) {
	for _, c := range cs {
		n, err := of(c)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// consulCounter is the address of a server.
type consulCounter struct {
	addr  string
	asked int // questions of its own, that the server has counted
}

func (c *consulCounter) metrics() string {
	return "http://" + c.addr + "/v1/agent/metrics?format=prometheus"
}

func (c *consulCounter) requests() (int, error) {
	n, err := scrape(http.DefaultClient, c.metrics(), func(name string) bool {
		return strings.HasPrefix(name, "consul_api_http_count{") && !strings.Contains(name, "v1_agent_metrics")
	})
	return n - c.asked, err
}

// told also counts what the server asks itself. The server tells how many questions wait only when another one comes,
// which is this one: it would wait, but is answered at once.
func (c *consulCounter) told() (int, error) {
	r, err := http.Get("http://" + c.addr + "/v1/kv/none?index=1&wait=1s") // there is none: 404
	if err != nil {
		return 0, err
	}
	c.asked++
	if err := r.Body.Close(); err != nil {
		return 0, err
	}
	n, err := scrape(http.DefaultClient, c.metrics(), func(name string) bool { return name == "consul_rpc_queries_blocking" })
	return n - 1, err
}

// scrape adds up the metrics whose name and labels fit.
func scrape(client *http.Client, url string, fits func(name string) bool) (total int, err error) {
	text, err := fetch(client, url)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !fits(name) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q", url, line)
		}
		total += int(number)
	}
	return total, nil
}

// queued returns how many of these processes wait for a flock: see proc_locks(5).
func queued(pids map[int]bool) (n int, err error) {
	text, err := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(text)) {
		_, waiter, waits := strings.Cut(line, "-> ")
		words := strings.Fields(waiter)
		const pidField = 3
		if !waits || len(words) <= pidField {
			continue
		}
		if pid, err := strconv.Atoi(words[pidField]); err == nil && pids[pid] {
			n++
		}
	}
	return n, err
}
