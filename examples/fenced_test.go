package examples

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// shop is where the total of the orders is kept, 100 at first, that the scripts of an example add to.
type shop struct {
	env   []string // what they need to find it
	total func() string
}

func TestFencedFile(t *testing.T) {
	t.Parallel()
	overtaken(t, "file", func(w *world, _ bool) shop {
		w.write("total", "100\n")
		return shop{
			env:   []string{"TOTAL=" + w.path("total")},
			total: func() string { return w.read("total") },
		}
	})
}

func TestFencedRedis(t *testing.T) {
	t.Parallel()
	servers.Require(t, "redis")
	overtaken(t, "redis", func(w *world, _ bool) shop {
		r := servers.Redis(w.t, servers.RedisOptions{})
		r.Do(w.t, "set", "total", "100")
		return shop{
			env:   []string{"SHOP=redis://" + r.Addr()},
			total: func() string { return fmt.Sprint(r.Do(w.t, "get", "total")) },
		}
	})
}

func TestFencedPostgres(t *testing.T) {
	t.Parallel()
	servers.Require(t, "postgres")
	overtaken(t, "postgres", func(w *world, _ bool) shop {
		server := servers.Postgres(w.t, servers.PostgresOptions{})
		env := []string{"PGHOST=" + server.Socket(), fmt.Sprint("PGPORT=", server.Port), "PGUSER=postgres"}
		_, schema := w.start(w.env, "", bin+"/leaderrun", "fence", "sql", "--dialect", "postgres").wait()
		schema += "CREATE TABLE totals (name text PRIMARY KEY, amount int); INSERT INTO totals VALUES ('orders', 100);"
		w.start(w.with(env...), schema, "psql", "-qX", "-v", "ON_ERROR_STOP=1").expect(0, "")
		return shop{env: env, total: func() string {
			_, said := w.start(w.with(env...), "", "psql", "-qXAt", "-c", "SELECT amount FROM totals").wait()
			return said
		}}
	})
}

// The leases are in the database that the job writes to. A run that was overtaken is refused there, and what the tables hold
// fits together.
func TestOneDatabase(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	servers.Require(t, "postgres")
	w := newWorld(t)
	server := servers.Postgres(t, servers.PostgresOptions{})
	w.write("backend", server.URL()+"&longest-ttl=5s")
	w.env = append(w.env, "PGHOST="+server.Socket(), fmt.Sprint("PGPORT=", server.Port), "PGUSER=postgres")
	_, schema := w.start(w.env, "", bin+"/leaderrun", "fence", "sql", "--dialect", "postgres").wait()
	schema += "CREATE TABLE totals (name text PRIMARY KEY, amount int, token bigint); INSERT INTO totals VALUES ('orders', 100, 0);"
	w.start(w.env, schema, "psql", "-qX", "-v", "ON_ERROR_STOP=1").expect(0, "")
	_, look, _ := strings.Cut(text(t, "one-database/README.md"), "```sql\n")
	look, _, _ = strings.Cut(look, "```")
	if !strings.Contains(text(t, "../docs/fencing.md"), look) {
		t.Error("docs/fencing.md has another query")
	}
	script := absolute(t, "one-database/orders.sh")

	w.tool("add-orders", "echo 1")
	first := w.frozenAfterCheck(script)
	// The second host adds one order of its own, and that of the first worker, whose run it repeats.
	w.tool("add-orders", "echo 2")
	w.start(w.env, "", bin+"/leaderrun", "run", "--ttl", "5s", "--wait", "1m", "orders", "--", script).expect(0, "")
	after := server.Do(t, "SELECT row(granted, fence, wrote, amount) FROM ("+strings.TrimSuffix(strings.TrimSpace(look), ";")+") AS look")
	token := server.Do(t, "SELECT token FROM leaderrun_fence")
	if want := fmt.Sprintf("(%[1]s,%[1]s,%[1]s,102)", token); after != want {
		t.Errorf("the second host has left %s, want %s", after, want)
	}
	w.write("go", "")
	w.until("end", "\n")
	first.says("is stale: ")
	if strings.TrimSpace(w.read("end")) != "3" {
		t.Errorf("the first worker ended with %s and said %q", w.read("end"), first.said())
	}
	if got := server.Do(t, "SELECT amount FROM totals"); got != "102" {
		t.Errorf("after the first worker has woken up, the total is %s, want 102", got)
	}
}

func TestFencedS3(t *testing.T) {
	t.Parallel()
	servers.Require(t, "s3")
	overtaken(t, "s3", func(w *world, fenced bool) shop {
		server := servers.S3(w.t, servers.S3Options{})
		env := []string{
			"AWS_ENDPOINT_URL=" + server.Endpoint(), "TOTAL=s3://bucket/total",
			"AWS_ACCESS_KEY_ID=" + servers.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + servers.S3SecretKey,
		}
		if !fenced {
			server.API(w.t, "PUT", "/bucket/total", "100")
			return shop{env: env, total: func() string { return server.API(w.t, "GET", "/bucket/total", "") }}
		}
		w.start(w.with(append(env, "LEADERRUN_TOKEN=1")...), "100", bin+"/leaderrun", "fence", "s3", "s3://bucket/total").expect(0, "")
		return shop{env: env, total: func() string {
			_, said := w.start(w.with(env...), "", bin+"/leaderrun", "fence", "s3", "--read", "s3://bucket/total").wait()
			return said
		}}
	})
}

func TestFencedHTTP(t *testing.T) {
	t.Parallel()
	overtaken(t, "http", func(w *world, fenced bool) shop {
		var mu sync.Mutex
		total := "100"
		service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			body, err := io.ReadAll(in.Body)
			mu.Lock()
			defer mu.Unlock()
			if in.Method == http.MethodPut && err == nil {
				total = string(body)
				return
			}
			_, _ = io.WriteString(out, total)
		}))
		w.t.Cleanup(service.Close)
		s := shop{env: []string{"SHOP=" + service.URL}, total: func() string {
			mu.Lock()
			defer mu.Unlock()
			return total
		}}
		if fenced {
			listen := fmt.Sprint("127.0.0.1:", servers.FreePort(w.t))
			proxy := w.start(w.with("LEADERRUN_LOG_LEVEL=info"), "", bin+"/leaderrun", "fence", "http",
				"--listen", listen, "--resource", "orders", "--state", w.path("fences"), service.URL)
			proxy.says(listen)
			s.env = []string{"SHOP=http://" + listen}
		}
		return s
	})
}

// overtaken runs both scripts of an example in the same way. A worker reads the total of 100 and finds that it still leads. Then
// its host stands still: nobody renews the lease, and nobody ends the worker. The next run comes, on another host, and adds its
// order. The worker wakes up and writes. Without a fence the order of the next run is lost; with it the late write is refused.
func overtaken(t *testing.T, kind string, open func(w *world, fenced bool) shop) {
	t.Helper()
	servers.Require(t, "redis")
	refusal := "is stale: "
	if kind == "http" {
		refusal = "409"
	}
	for _, c := range []struct{ script, total, refusal string }{
		{"unfenced.sh", "101", ""},
		{"fenced.sh", "102", refusal},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			leases := servers.Redis(t, servers.RedisOptions{})
			w.write("backend", "redis://"+leases.Addr()+"?longest-ttl=5s")
			s := open(w, c.script == "fenced.sh")
			w.env = append(w.env, s.env...)
			// What takes time: orders of the first run are one, of the second one more.
			w.tool("add-orders", `echo "$((${1:-0} + 1))"`)
			script := absolute(t, filepath.Join("fenced-"+kind, c.script))

			first := w.frozenAfterCheck(script)
			// The second host adds two: one order of its own, and that of the first worker, whose run it repeats.
			w.tool("add-orders", `echo "$((${1:-0} + 2))"`)
			w.start(w.env, "", bin+"/leaderrun", "run", "--ttl", "5s", "--wait", "1m", "orders", "--", script).expect(0, "")
			if got := strings.TrimSpace(s.total()); got != "102" {
				t.Fatalf("the second host has left the total %q", got)
			}
			w.write("go", "")
			w.until("end", "\n")
			if got := strings.TrimSpace(s.total()); got != c.total {
				t.Errorf("after the first worker has woken up, the total is %q, want %q", got, c.total)
			}
			if c.refusal == "" && strings.TrimSpace(w.read("end")) != "0" {
				t.Errorf("the first worker ended with %s and said %q", w.read("end"), first.said())
			}
			first.says(c.refusal)
		})
	}
}

// frozenAfterCheck starts a run whose worker stands still behind its `leaderrun check`, on a host whose leaderrun stands still
// too. It goes on when the file "go" is there, and "end" holds the worker's exit code.
func (w *world) frozenAfterCheck(script string) *host {
	w.t.Helper()
	if err := os.Mkdir(w.path("frozen"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.tool("standstill", bin+`/leaderrun "$@"; code=$?`,
		`if [ "$1" = check ]; then echo $code >$DIR/checked; while ! test -e $DIR/go; do sleep 0.01; done; fi`, "exit $code")
	if err := os.Rename(w.path("tools/standstill"), w.path("frozen/leaderrun")); err != nil {
		w.t.Fatal(err)
	}
	env := w.with("SCRIPT=" + script)
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	env[i] = "PATH=" + w.path("frozen") + ":" + strings.TrimPrefix(env[i], "PATH=")
	h := w.start(env, "", bin+"/leaderrun", "run", "--ttl", "5s", "orders", "--", "sh", "-c", `"$SCRIPT"; echo $? >end`)
	servers.Eventually(w.t, "the worker has asked", func() bool {
		if w.read("end") != "" {
			w.t.Fatalf("the worker has ended: %s", h.said())
		}
		return strings.Contains(w.read("checked"), "0")
	})
	wrapper := h.cmd.Process.Pid
	for _, pid := range append([]int{wrapper}, hosts.Children(w.t, wrapper)...) {
		if pid != wrapper && hosts.Comm(pid) != "lr-guard" {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			w.t.Fatal(err)
		}
		// It leaves no process behind when the test ends in the middle: the guardian is in another session.
		w.t.Cleanup(func() { _ = p.Signal(syscall.SIGCONT) })
	}
	return h
}
