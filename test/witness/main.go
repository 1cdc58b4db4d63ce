// Witness is the command that is run under real faults: by the tests of package acceptance, and on a bed of package bed.
// Each of its processes writes into a file of its own in a folder when it began, when it was last alive, and the longest
// time between two beats; SIGKILL takes nothing of that back. If the folder is a bed's, it tells the bed of itself, and writes to
// the bed's ledgers, through a socket. It is a program of its own because thousands of it start: the test binary, with the
// race detector in it, would keep the machine busy.
//
//	witness FOLDER JOB HOST LIFE NUMBER [stubborn]
//
// The number is that of the wrapper, as a bed counts. A stubborn one ignores SIGTERM, and has a child, and an orphan in a session of its own, which do the same.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// Dozens of witnesses live at once: what they do must not be what keeps the machine busy.
const (
	pulse   = 10 * time.Millisecond
	entries = 50 * time.Millisecond // between two writes to the ledgers
)

// roleMiddle starts the orphan and ends.
const roleMiddle beats.Role = "middle"

// runEnv carries the main process's Span to the others of its run.
const runEnv = "LEADERRUN_WITNESS_RUN"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func run() error {
	runtime.GOMAXPROCS(1) // it sleeps, and looks for no work on its way there
	span, dir, err := self()
	if err != nil {
		return err
	}
	life, err := time.ParseDuration(os.Args[4])
	if err != nil {
		return err
	}
	if span.Role == roleMiddle {
		return spawn(span, beats.RoleOrphan, false)
	}
	if len(os.Args) > 6 {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		if span.Role == beats.RoleMain {
			if err := spawn(span, beats.RoleChild, false); err != nil {
				return err
			}
			if err := spawn(span, roleMiddle, true); err != nil {
				return err
			}
		}
	}
	go enter(filepath.Join(dir, beats.SocketName), span)
	return live(dir, span, life)
}

// self returns what this process says of itself, and the bed's folder.
func self() (beats.Span, string, error) {
	if len(os.Args) < 6 {
		return beats.Span{}, "", fmt.Errorf("usage: witness FOLDER JOB HOST LIFE NUMBER [stubborn]")
	}
	span := beats.Span{Job: os.Args[2], Host: os.Args[3], Role: beats.RoleMain, PID: os.Getpid(), First: boottime.Now()}
	if text := os.Getenv(runEnv); text != "" {
		var of beats.Span
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return span, "", err
		}
		of.PID, of.First = span.PID, span.First
		return of, os.Args[1], nil
	}
	span.Run = fmt.Sprintf("%s-%d-%d", span.Host, span.PID, span.First)
	span.Began = span.First
	var err error
	if span.Wrapper, err = strconv.Atoi(os.Args[5]); err != nil {
		return span, "", err
	}
	// A peer sets none of these.
	span.Token, _ = strconv.ParseInt(os.Getenv("LEADERRUN_TOKEN"), 10, 64)
	span.Tick, _ = strconv.ParseInt(os.Getenv("LEADERRUN_TICK_UNIX"), 10, 64)
	span.Attempt, _ = strconv.Atoi(os.Getenv("LEADERRUN_ATTEMPT"))
	for _, part := range []string{"LEADERRUN_SLOT", "LEADERRUN_SHARD"} {
		if number := os.Getenv(part); number != "" {
			span.Part, _ = strconv.Atoi(number)
			span.Parts, _ = strconv.Atoi(os.Getenv(part + "S"))
		}
	}
	// Its token counts among those of this name.
	if name := os.Getenv("LEADERRUN_JOB"); name != "" && name != span.Lease() {
		return span, "", fmt.Errorf("the run of %s is called %s", span.Lease(), name)
	}
	return span, os.Args[1], nil
}

// spawn starts another process of the run.
func spawn(of beats.Span, role beats.Role, session bool) error {
	of.Role = role
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Env = append(os.Environ(), runEnv+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		return err
	}
	if role == roleMiddle {
		return cmd.Wait()
	}
	return nil
}

// live beats for a life.
func live(dir string, span beats.Span, life time.Duration) error {
	f, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	for last := span.First; ; time.Sleep(pulse) {
		now := boottime.Now()
		span.Pause, last = max(span.Pause, now.Sub(last)), now
		span.Last, span.Beats = now, span.Beats+1
		// The children of a run end with it, and not by themselves.
		span.Over = now.Sub(span.Began) >= life && span.Role == beats.RoleMain
		if err := beats.Write(f, span); err != nil {
			return err
		}
		if span.Beats == 1 { // whoever looks for spans finds whole ones
			if err := os.Rename(f.Name(), filepath.Join(dir, beats.Name(span))); err != nil {
				return err
			}
		}
		if span.Over {
			return nil
		}
	}
}

// enter tells the bed of this process, and writes to its ledgers until it ends.
func enter(socket string, span beats.Span) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return // there is no bed, or it is being taken down
	}
	if err := json.NewEncoder(conn).Encode(span); err != nil {
		return
	}
	for answer := make([]byte, 1); ; time.Sleep(entries) {
		if _, err := conn.Write([]byte{beats.Entry}); err != nil {
			return
		}
		if _, err := conn.Read(answer); err != nil {
			return
		}
	}
}
