package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/supervise/ahead"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// helpers are programs that the tests run: as commands, as something below them, or as the wrapper.
var helpers = map[string]func(args []string){
	"bomb":     helperBomb,
	"daemon":   helperDaemon,
	"headless": helperHeadless,
	"linger":   helperLinger,
	"main":     helperMain,
	"reraise":  helperReraise,
	"shell":    helperShell,
	"signals":  helperSignals,
	"storm":    helperStorm,
	"threads":  helperThreads,
	"tidy":     helperTidy,
	"tracer":   helperTracer,
	"untaken":  helperUntaken,
	"wrapper":  helperWrapper,
}

// put writes a whole line at once: who waits for the file never reads half of it.
func put(name string, value any) {
	temporary := name + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temporary, fmt.Appendln(nil, value), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(temporary, name); err != nil {
		panic(err)
	}
}

// helperTidy ends when the cgroup is gone that a killed run has left beside those of this process.
func helperTidy(args []string) {
	newCgroupPath()
	for exists := true; exists; time.Sleep(time.Millisecond) {
		_, err := os.Lstat(args[0])
		exists = err == nil
	}
}

// helperLinger ignores SIGTERM, says that it lives, and stays.
func helperLinger(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	put(args[0], os.Getpid())
	forever()
}

// forever is not `select {}`, which Go ends as a deadlock in a program that does nothing else.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// helperDaemon leaves a process behind that is no child, in another session, and ends when that lives.
func helperDaemon(args []string) {
	if len(args) == 1 { // the first fork: its child becomes an orphan
		child := exec.Command("/proc/self/exe", args[0])
		child.Env = append(os.Environ(), helperVariable+"=linger")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		return
	}
	middle := exec.Command("/proc/self/exe", args[0])
	middle.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := middle.Run(); err != nil {
		os.Exit(97) // the test killed it
	}
	for {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if args[1] == "stay" {
		signal.Ignore(syscall.SIGTERM)
		put("command", os.Getpid())
		forever()
	}
}

// init keeps main on the first thread of the helpers for which that counts.
func init() {
	switch os.Getenv(helperVariable) {
	case "headless", "main":
		runtime.LockOSThread()
	}
}

// helperMain calls offMainThread on the main thread.
func helperMain([]string) {
	here := syscall.Gettid() == os.Getpid()
	offMainThread(func() { fmt.Println(here, syscall.Gettid() == os.Getpid()) })
}

// helperHeadless ends its main thread, as pthread_exit(3) in main does, and lives on in another one.
func helperHeadless(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for { // until the kernel shows the first thread as gone
			if text, err := os.ReadFile("/proc/self/stat"); err == nil && strings.Contains(string(text), ") Z ") {
				break
			}
			time.Sleep(time.Millisecond)
		}
		put(args[0], os.Getpid())
		forever()
	}()
	if syscall.Gettid() != os.Getpid() {
		panic("not the main thread")
	}
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// helperBomb forks itself again and again, up to a number of processes in all: each leaves a byte.
func helperBomb(args []string) {
	const most = 120
	signal.Ignore(syscall.SIGTERM)
	counter, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	for {
		info, err := counter.Stat()
		if err != nil || info.Size() >= most {
			time.Sleep(time.Millisecond)
			continue
		}
		_, _ = counter.WriteString("x")
		child := exec.Command("/proc/self/exe", args[0])
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
	}
}

func helperReraise(args []string) {
	n, _ := strconv.Atoi(args[0])
	CaptureSignals()
	Reraise(syscall.Signal(n))
	os.Exit(128 + n)
}

// helperSignals prints what CaptureSignals delivers, until SIGTERM.
func helperSignals([]string) {
	signals := CaptureSignals()
	fmt.Println("ready")
	for n := range signals {
		fmt.Println(n)
		if n == syscall.SIGTERM {
			return
		}
	}
}

// wrapperOrder is what helperWrapper is told to do, in its first argument.
type wrapperOrder struct {
	Dir           string
	Command       Command
	Lock          string // a file to lock and to pass on
	Hold          bool   // to the guardian alone
	Term, Life    time.Duration
	Extend        bool // until there is a file of the name "cut off"
	WithoutCgroup bool
	Cgroup        string // that the wrapper is in
	PrepareOnly   bool
	Leave         bool // end as soon as the guardian is lost
	Ahead         bool // take the guardian that was started from init
}

func (o wrapperOrder) text(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	return string(text)
}

// helperWrapper is leaderrun reduced to this package: it locks a file, runs a command, and extends it.
func helperWrapper(args []string) {
	var order wrapperOrder
	check(json.Unmarshal([]byte(args[len(args)-1]), &order))
	if order.Lock != "" {
		lock, err := os.OpenFile(order.Lock, os.O_CREATE|os.O_RDWR, 0o644)
		check(err)
		check(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
		if order.Hold {
			order.Command.Hold = []*os.File{lock}
		} else {
			order.Command.Inherit = []*os.File{lock}
		}
		defer runtime.KeepAlive(lock)
	}
	warn := func(s string) { put(filepath.Join(order.Dir, "warned"), s) }
	options := Options{withoutCgroup: order.WithoutCgroup, Warn: warn}
	if begun, ok := ahead.Take(); ok != order.Ahead {
		check(fmt.Errorf("a guardian was started ahead: %v", ok))
	} else if ok {
		options.Begun = func() (guardian.Begun, bool) { return begun, true }
	}
	g, err := prepared(options)
	check(err)
	deadline := func() lifeline.Deadline {
		d := in(order.Term)
		if order.Life != 0 {
			d.Kill, d.End = d.Term.Add(order.Life), d.Term.Add(2*order.Life)
		}
		return d
	}
	if order.PrepareOnly {
		put(filepath.Join(order.Dir, "guardian"), g.pid)
		put(filepath.Join(order.Dir, "wrapper"), os.Getpid())
		forever()
	}
	check(g.Start(order.Command, deadline()))
	put(filepath.Join(order.Dir, "guardian"), g.pid)
	put(filepath.Join(order.Dir, "wrapper"), os.Getpid())
	renew := time.NewTicker(order.Term/10 + time.Millisecond)
	for {
		select {
		case e, ok := <-g.Events():
			if !ok {
				check(g.Close())
				return
			}
			put(filepath.Join(order.Dir, eventFile(e.Kind)), e.Status.ExitCode())
			if order.Leave && e.Kind == lifeline.GuardianLost && g.Close() != nil {
				syscall.Exit(75)
			}
		case <-renew.C:
			if _, err := os.Stat(filepath.Join(order.Dir, "cut off")); order.Extend && err != nil {
				g.Extend(deadline())
			}
		}
	}
}

// helperUntaken says which guardian was started ahead, and ends without any further use of it.
func helperUntaken([]string) {
	if begun, ok := ahead.Take(); ok {
		fmt.Println(begun.PID)
	} else {
		fmt.Println("none")
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.Join(os.Args, " "), err)
		os.Exit(98)
	}
}

// eventFile is where a wrapper that is a process of its own leaves the news of an event.
func eventFile(kind lifeline.EventKind) string { return "event-" + strconv.Itoa(int(kind)) }
