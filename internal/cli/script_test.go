package cli_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/test/program"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long a test waits for what must happen, on a machine that is busy with other tests.
var patience = waits.Patience

// The test binary is leaderrun too, and the programs that the scripts need beside a shell.
func TestMain(m *testing.M) {
	// The scripts wait more than they work. -parallel on the command line still counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	*cli.JobsPatience = patience // the machine may stand still
	program.Main(m, map[string]func(){
		"faulty":  faulty,
		"aimed":   aimed,
		"rc":      recordEnd,
		"notifyd": serviceManager,
		"words":   printWords,
		"fetch":   fetch,
		"unheard": unheard,
	})
}

// aimed is a call of leaderrun that prints below which memory the garbage collector tries to stay.
func aimed() {
	end := program.Call([]string{"leaderrun", "version"})
	fmt.Println(debug.SetMemoryLimit(-1))
	os.Exit(end.Code)
}

func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestServerScripts runs those that need a server of one kind.
func TestServerScripts(t *testing.T) {
	for _, name := range []string{"redis", "consul", "s3", "etcd"} {
		t.Run(name, func(t *testing.T) {
			servers.Require(t, name)
			runScripts(t, "testdata/"+name)
		})
	}
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	testscript.Run(t, scriptParams(t, dir))
}

func scriptParams(t *testing.T, dir string) testscript.Params {
	t.Helper()
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(is string) (bool, error) {
			switch is {
			case "root":
				return os.Geteuid() == 0, nil
			case "mounts": // a file of this host may be another one for a program of the script
				return os.Geteuid() == 0 && exec.Command("unshare", "--mount", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", is)
		},
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second after every program otherwise
			env.Setenv("LEADERRUN_BACKEND", "file://"+env.WorkDir+"/store")
			if rule := os.Getenv("BROKEN_RULE"); rule != "" { // see scripts/mutants
				env.Setenv("BROKEN_RULE", rule)
			}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     expectCode,
			"sig":      sendSignal,
			"waitfile": waitFile,
			"waitgrep": waitGrep,
			"redis":    serverOf("REDIS", func(secret string) string { return servers.Redis(t, servers.RedisOptions{Password: secret}).Addr() }),
			"etcd": serverOf("ETCD", func(secret string) string {
				return servers.Etcd(t, servers.EtcdOptions{Password: secret, UnsafeNoFsync: true}).Endpoint()
			}),
			"consul":    serverOf("CONSUL", func(secret string) string { return servers.Consul(t, servers.ConsulOptions{Token: secret}).Addr() }),
			"s3":        func(ts *testscript.TestScript, _ bool, args []string) { askS3(t, ts, args) },
			"strangers": listenAsStrangers,
			"examples":  runExamples,
			"silent":    expectSilence,
			"examine":   examine,
		},
	}
}

// code N PROGRAM [ARG…] runs a program that must end with exactly this code.
func expectCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// silent: the last program wrote nothing.
func expectSilence(ts *testscript.TestScript, _ bool, _ []string) {
	if said := ts.ReadFile("stdout") + ts.ReadFile("stderr"); said != "" {
		ts.Fatalf("not silent: %q", said)
	}
}

// examine [ARG…] is `leaderrun doctor`, which must find nothing bad but perhaps the time that the steps of a run took: that is the
// machine's, and what is said of it has a test of its own.
func examine(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: examine [ARG…]")
	}
	err := ts.Exec("leaderrun", append([]string{"doctor"}, args...)...)
	said := ts.ReadFile("stdout")
	bad := regexp.MustCompile(`(?m)^bad +.*|"grade": "bad",\s+"what": .*`).FindAllString(said, -1)
	slow := len(bad) == 1 && strings.Contains(bad[0], "round trip") && strings.Contains(said, ": one may take ")
	if !slow {
		ts.Check(err)
	}
}

// sig SIGNAL NAME sends a signal to the program that `rc NAME` runs. One that is stopped does nothing any more when it returns.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	if len(args) != 2 || signals[args[0]] == 0 {
		ts.Fatalf("usage: sig SIGNAL NAME")
	}
	file := args[1] + ".pid"
	waitFile(ts, false, []string{file})
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	if args[0] == "STOP" {
		ts.Check(servers.Freeze(pid))
		return
	}
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}

// waitfile FILE… waits until the files are there and not empty.
func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		eventually(ts, file, func() bool {
			info, err := os.Stat(ts.MkAbs(file))
			return err == nil && info.Size() > 0
		})
	}
}

// waitgrep TEXT FILE waits until the file contains the text.
func waitGrep(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0]+" in "+args[1], func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		return err == nil && bytes.Contains(text, []byte(args[0]))
	})
}

func eventually(ts *testscript.TestScript, what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			ts.Fatalf("waited %v in vain for %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between two questions
	}
}

// redis [PASSWORD], etcd [PASSWORD] and consul [TOKEN] start a server, which asks for the secret, and set REDIS, ETCD or CONSUL to its address.
func serverOf(variable string, start func(secret string) (addr string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(variable, start(strings.Join(args, " ")))
	}
}

// strangers sets WEB to the address of a server that speaks another protocol, MUTE to that of one that hears what it is sent and
// hangs up, DEAF to that of one that never answers, and CLOSED to one that nobody listens on: a system gives away no port below 1024.
func listenAsStrangers(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("CLOSED", "127.0.0.1:1")
	for name, answer := range map[string]func(net.Conn){
		"WEB": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		},
		"MUTE": func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<16)) },
		"DEAF": func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Setenv(name, l.Addr().String())
		ts.Defer(func() { _ = l.Close() })
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				go func() {
					answer(conn)
					_ = conn.Close()
				}()
			}
		}()
	}
}

// examples COMMAND runs every example of the command's help in a shell.
func runExamples(ts *testscript.TestScript, _ bool, args []string) {
	for _, cmd := range cli.Commands() {
		if cmd.Name != args[0] {
			continue
		}
		if len(cmd.Examples) == 0 {
			ts.Fatalf("%s has no examples", cmd.Name)
		}
		for _, e := range cmd.Examples {
			if err := ts.Exec("bash", "-c", e.Line); err != nil {
				ts.Fatalf("%s: %v", e.Line, err)
			}
		}
		return
	}
	ts.Fatalf("no command %s", args[0])
}

// recordEnd is `rc NAME PROGRAM [ARG…]`: it runs the program, writes its pid to NAME.pid, and how it ended to
// NAME. Shells hide whether a program died of a signal or says that it did.
func recordEnd() {
	name := os.Args[1]
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	replaceFile(name+".pid", strconv.Itoa(cmd.Process.Pid)+"\n")
	// A script that failed interrupts what it left behind. A second SIGTERM kills, if the first was seen.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT)
	go func() {
		<-interrupted
		for cmd.Process.Signal(syscall.SIGTERM) == nil {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	text := fmt.Sprintf("exit %d\n", status.ExitStatus())
	if status.Signaled() {
		text = fmt.Sprintf("signal %d\n", status.Signal())
	}
	replaceFile(name, text)
}

// unheard is `unheard CODE PROGRAM [ARG…]`: it runs the program several times with a stdout and stderr that nobody reads any
// more, which is SIGPIPE to a program that does not mind, and wants that code.
func unheard() {
	for range 10 { // a handler that is installed on the way would be late only sometimes
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		_ = r.Close()
		cmd := exec.Command(os.Args[2], os.Args[3:]...)
		cmd.Stdout, cmd.Stderr = w, w
		_ = cmd.Run()
		_ = w.Close()
		if cmd.ProcessState.ExitCode() < 0 || strconv.Itoa(cmd.ProcessState.ExitCode()) != os.Args[1] {
			fmt.Fprintf(os.Stderr, "%v, want exit code %s\n", cmd.ProcessState, os.Args[1])
			os.Exit(1)
		}
	}
}

// replaceFile lets nobody see half a file.
func replaceFile(name, text string) {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		panic(err)
	}
}

// serviceManager is `notifyd FILE PROGRAM [ARG…]`: it runs the program as systemd runs a service of
// Type=notify, appends what it is told to FILE, and ends with the program's code.
func serviceManager() {
	dir, err := os.MkdirTemp("", "lr")
	if err != nil {
		panic(err)
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/s", Net: "unixgram"})
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	const last = "notifyd: the program has ended"
	over := make(chan struct{})
	go func() {
		defer close(over)
		message := make([]byte, 4096)
		for {
			n, err := socket.Read(message)
			if err != nil || string(message[:n]) == last {
				return
			}
			fmt.Fprintf(file, "%s\n--\n", message[:n])
		}
	}()
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+dir+"/s", "WATCHDOG_USEC=100000")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if end, err := net.Dial("unixgram", dir+"/s"); err == nil { // behind all that the program has said
		_, _ = end.Write([]byte(last))
	}
	<-over
	_ = os.RemoveAll(dir)
	if err != nil {
		os.Exit(cmd.ProcessState.ExitCode())
	}
}

// printWords is `words [ARG…]`: each argument on a line, quoted.
func printWords() {
	for _, word := range os.Args[1:] {
		fmt.Printf("%q\n", word)
	}
}

// fetch LOG PATH shows what a daemon serves that has told its address in the log.
func fetch() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	_, after, _ := strings.Cut(string(text), "listening on ")
	address, _, _ := strings.Cut(after, "\n")
	response, err := http.Get("http://" + address + os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(os.Stdout, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		os.Exit(1)
	}
}
