package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// seatPatience is how long the next in a queue may take to have its command started.
const seatPatience = time.Minute

// takeSeat is the command of those that queue: it tells the desk that it runs, and runs until the desk says so.
func takeSeat(desk string) error {
	began := boottime.Now()
	conn, err := net.Dial("unix", desk)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, os.Getpid(), int64(began)); err != nil {
		return err
	}
	_, _ = conn.Read(make([]byte, 1)) // the desk is gone, or says that this is the end
	_, err = fmt.Fprintln(conn, int64(boottime.Now()))
	return err
}

// desk learns of each command of a queue when it starts, and ends it.
type desk struct {
	listener *net.UnixListener
}

// seat is a command that runs.
type seat struct {
	conn  net.Conn
	reply *bufio.Reader
	pid   int
	began boottime.Instant
}

func openDesk(path string) (*desk, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	return &desk{l}, err
}

// next returns the command that has started, or waits for one.
func (d *desk) next() (*seat, error) {
	if err := d.listener.SetDeadline(time.Now().Add(seatPatience)); err != nil {
		return nil, err
	}
	conn, err := d.listener.Accept()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("no command has started within %v", seatPatience)
		}
		return nil, err
	}
	s := &seat{conn: conn, reply: bufio.NewReader(conn)}
	_, err = fmt.Fscan(s.reply, &s.pid, &s.began)
	return s, err
}

// end ends the command and returns when it ended.
func (s *seat) end() (ended boottime.Instant, err error) {
	defer func() { _ = s.conn.Close() }()
	if _, err := s.conn.Write([]byte{'\n'}); err != nil {
		return 0, err
	}
	_, err = fmt.Fscan(s.reply, &ended)
	return ended, err
}
