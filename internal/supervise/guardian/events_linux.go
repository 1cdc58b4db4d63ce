package guardian

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/supervise/tree"
)

// events are what the guardian waits for. It waits in one system call on the thread that acts: goroutines that
// wait in its place would cost threads, which every run has to start and to end, and each message would pass
// through two of them.
type events struct {
	channel  int // descriptor of the control channel, -1 once that is broken
	alarm    *boottime.Alarm
	children int  // a descriptor that can be read when a child may be waited for
	looking  bool // until then
	command  int  // a descriptor that can be read when the command has ended, also where a process that traces it hides that; -1: there is none
}

// listen takes over the descriptor of the control channel.
func listen(fd int) (*events, *Conn, error) {
	alarm, err := boottime.NewAlarm()
	if err != nil {
		return nil, nil, err
	}
	children, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, nil, errno
	}
	return &events{channel: fd, alarm: alarm, children: int(children), command: -1}, &Conn{raw: polled(fd)}, nil
}

// await waits until something has happened, but not past an instant. It returns a message of the wrapper or its
// death, if that is what it was.
func (g *guardian) await(until boottime.Instant) (received, bool) {
	e := g.events
	if m, fds, ok, err := g.conn.decoded(); ok || err != nil {
		if err != nil { // what follows makes no sense either
			e.channel, g.conn.in = -1, nil
		}
		return received{m, fds, err}, true
	}
	e.alarm.Set(until)
	if g.pid != 0 && !g.childless && !e.looking {
		e.looking = true
		go e.lookForChild(g.request.WatchStops)
	}
	var news [4]bool
	poll(news[:], e.channel, e.alarm.Descriptor(), e.children, e.command)
	if news[3] {
		_ = syscall.Close(e.command)
		e.command = -1
		g.endedAt = boottime.Now()
	}
	if news[2] {
		var count [8]byte
		_, _ = syscall.Read(e.children, count[:])
		e.looking = false
	}
	if !news[0] {
		return received{}, false
	}
	m, fds, ok, err := g.conn.TryReceive()
	if err != nil {
		e.channel = -1 // it would stay readable for ever
	}
	return received{m, fds, err}, ok || err != nil
}

// watch begins to wait for the end of the command.
func (e *events) watch(pid int) { e.command = tree.WatchEnd(pid) }

// lookForChild waits for a child that can be reaped, or has stopped, on a thread of its own. Nothing shorter tells
// of all of them: a descriptor of the command (pidfd_open(2)) does not know the orphans that become ours.
func (e *events) lookForChild(stops bool) {
	if !tree.AwaitChild(stops) { // no reason to ask again and again
		time.Sleep(tree.SlowestPoll)
	}
	one := [8]byte{1, 1, 1, 1, 1, 1, 1} // a count that is not zero, whatever the byte order
	_, _ = syscall.Write(e.children, one[:])
}

// pollFD is struct pollfd of poll(2).
type pollFD struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// poll waits until one of the descriptors can be read, and says which. A negative one never can.
func poll(news []bool, fds ...int) {
	list := make([]pollFD, len(fds))
	for i, fd := range fds {
		list[i] = pollFD{fd: int32(fd), events: pollIn}
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)), 0, 0, 0, 0)
	for i := range news {
		news[i] = errno == 0 && list[i].revents != 0
	}
}

// polled is a descriptor that its thread waits for by itself, without Go's poller.
type polled int

func (p polled) Control(f func(fd uintptr)) error {
	f(uintptr(p))
	return nil
}

func (p polled) Read(done func(fd uintptr) bool) error {
	for !done(uintptr(p)) {
		poll(nil, int(p))
	}
	return nil
}

// Write is not for the guardian: a stopped wrapper must not stop it.
func (p polled) Write(func(fd uintptr) bool) error { return syscall.ENOSYS }
