package launch

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/runner"
)

// The variables of a service manager, the values of --ready, and what a notification may take.
const (
	notifySocket  = "NOTIFY_SOCKET"
	watchdogTime  = "WATCHDOG_USEC"
	watchdogPID   = "WATCHDOG_PID"
	ReadyStandby  = "standby"
	readyLeading  = "leading"
	notifyTimeout = 200 * time.Millisecond // a service manager that does not read must not hold anything up
	notifyBuffer  = 64
)

// Notifier tells systemd how the service is doing, sd_notify(3). Nil: nobody wants to know.
type Notifier struct {
	socket  *net.UnixConn
	ready   string // readyStandby or readyLeading
	Told    bool   // READY was sent
	queue   chan string
	written chan struct{}
	stop    sync.Once
}

// NewNotifier connects to the service manager that started this process, if one did.
func NewNotifier(lookup func(string) (string, bool), ready string) *Notifier {
	name, _ := lookup(notifySocket)
	if name == "" {
		return nil
	}
	// A name that begins with @ is in the abstract namespace; package net knows that.
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil
	}
	n := &Notifier{socket: socket, ready: ready, queue: make(chan string, notifyBuffer), written: make(chan struct{})}
	panics.Go(func() { n.speak(watchdogEvery(lookup)) })
	return n
}

// watchdogEvery is half of the time within which the service manager expects a sign of life; 0: it does not.
func watchdogEvery(lookup func(string) (string, bool)) time.Duration {
	if pid, ok := lookup(watchdogPID); ok && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	text, _ := lookup(watchdogTime)
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	return time.Duration(micros) * time.Microsecond / 2
}

func (n *Notifier) speak(every time.Duration) {
	defer close(n.written)
	var alive <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		alive = ticker.C
		n.send("WATCHDOG=1")
	}
	for {
		select {
		case state, open := <-n.queue:
			if !open {
				return
			}
			n.send(state)
		case <-alive:
			n.send("WATCHDOG=1")
		}
	}
}

func (n *Notifier) send(state string) {
	_ = n.socket.SetWriteDeadline(time.Now().Add(notifyTimeout))
	_, _ = n.socket.Write([]byte(state)) // there is nobody to tell
}

// say queues a state. It never blocks.
func (n *Notifier) say(state string) {
	if n == nil {
		return
	}
	select {
	case n.queue <- state:
	default:
	}
}

// Event tells systemd of what happened to the run.
func (n *Notifier) Event(e runner.Event) {
	if n == nil {
		return
	}
	switch e.Name {
	case runner.EventStandby, runner.EventAcquired:
		n.status(cli.OneLine(e.Job+": "+e.Text), n.ready == ReadyStandby)
	case runner.EventStarted:
		n.status(fmt.Sprintf("%s: leading with token %d", cli.OneLine(e.Job), e.Token), true)
	case runner.EventStopping, runner.EventLost:
		n.say("STOPPING=1\nSTATUS=" + cli.OneLine(e.Text))
	case runner.EventUndead, runner.EventTraced, runner.EventExited:
		n.say("STATUS=" + cli.OneLine(e.Text))
	}
}

func (n *Notifier) status(text string, ready bool) {
	state := "STATUS=" + text
	if ready && !n.Told {
		n.Told = true
		state = "READY=1\n" + state
	}
	n.say(state)
}

// The states of a service that is not one run. They do nothing where nobody wants to know.

// IsReady says that the service is ready, and what it does.
func (n *Notifier) IsReady(status string) {
	if n != nil {
		n.Told = true
		n.say("READY=1\nSTATUS=" + cli.OneLine(status))
	}
}

// IsReloading also says when, for Type=notify-reload.
func (n *Notifier) IsReloading() {
	n.say(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", boottime.Monotonic().Microseconds()))
}

// IsStopping says that the service ends, and what it waits for.
func (n *Notifier) IsStopping(status string) {
	n.say("STOPPING=1\nSTATUS=" + cli.OneLine(status))
}

// Close says that the service stops, and waits until everything was said. A service of Type=notify that ends
// well without having been ready counts as failed: a run that was left to another host has ended well.
func (n *Notifier) Close(end cli.ExitStatus) {
	if n == nil {
		return
	}
	n.stop.Do(func() {
		if end.Code == 0 && !n.Told {
			n.say("READY=1")
		}
		n.say("STOPPING=1")
		close(n.queue)
		<-n.written
		_ = n.socket.Close()
	})
}
