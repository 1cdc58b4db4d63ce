package boottime

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// From <linux/time.h> and <linux/timerfd.h>; see clock_gettime(2) and timerfd_create(2).
const (
	clockMonotonic   = 1
	clockBoottime    = 7
	timerfdAbstime   = 1
	timerfdNonblock  = syscall.O_NONBLOCK
	timerfdCloexec   = syscall.O_CLOEXEC
	expirationLength = 8
)

// Now reads the clock. It never fails: CLOCK_BOOTTIME is in every kernel that Go runs on.
func Now() Instant { return Instant(read(clockBoottime)) }

// Monotonic is CLOCK_MONOTONIC, which others compare: systemd wants it. It stops in suspend, so no lease is counted on it.
func Monotonic() time.Duration { return time.Duration(read(clockMonotonic)) }

func read(clock uintptr) int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("clock_gettime: " + errno.Error())
	}
	return ts.Nano()
}

// Alarm makes a descriptor readable at an instant (timerfd_create(2)), for who waits for descriptors by poll(2).
type Alarm struct {
	fd  int
	set Instant
}

// NewAlarm returns an alarm that is not set.
func NewAlarm() (*Alarm, error) {
	fd, err := newTimer()
	return &Alarm{fd: fd}, err
}

// Descriptor is what gets readable, until Set is called for another instant.
func (a *Alarm) Descriptor() int { return a.fd }

// Set sets the alarm to an instant instead of an earlier setting.
func (a *Alarm) Set(at Instant) {
	if at != a.set {
		a.set = at
		setTimer(uintptr(a.fd), at)
	}
}

func newTimer() (int, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, timerfdNonblock|timerfdCloexec, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("timerfd_create", errno)
	}
	return int(fd), nil
}

func setTimer(fd uintptr, at Instant) {
	// A zero it_value would disarm the timer.
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(max(at, 1)))}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, timerfdAbstime, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// Timer wakes its owner at an instant, also when the machine was suspended across it. A wake-up may
// be spurious: the owner compares Now with what it waits for. Safe for use by several goroutines.
type Timer struct {
	c    chan struct{}
	file *os.File
	once sync.Once
}

// NewTimer returns a timer that is not set.
func NewTimer() (*Timer, error) {
	fd, err := newTimer()
	if err != nil {
		return nil, err
	}
	t := &Timer{c: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timerfd")}
	go t.forward()
	return t, nil
}

// C receives a value when the timer expires.
func (t *Timer) C() <-chan struct{} { return t.c }

// Set makes the timer expire at the given instant, at once if it has passed, and forgets an earlier setting.
func (t *Timer) Set(at Instant) {
	conn, err := t.file.SyscallConn()
	if err != nil {
		return // stopped
	}
	_ = conn.Control(func(fd uintptr) { setTimer(fd, at) })
}

// Stop releases the timer's descriptor. C receives nothing more.
func (t *Timer) Stop() { t.once.Do(func() { _ = t.file.Close() }) }

func (t *Timer) forward() {
	var expirations [expirationLength]byte
	for {
		if _, err := t.file.Read(expirations[:]); err != nil {
			return
		}
		select {
		case t.c <- struct{}{}:
		default:
		}
	}
}
