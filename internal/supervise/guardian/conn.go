package guardian

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Conn is one end of the control channel, a stream socket of AF_UNIX. One goroutine may receive while
// another sends.
type Conn struct {
	file *os.File
	raw  syscall.RawConn
	in   []byte // received, not yet decoded
	fds  []int  // received, not yet taken
}

const (
	receiveSize = 4096
	// MaxInherit is how many descriptors a Start message can carry.
	MaxInherit = 16
	fdSize     = 4
)

// NewConn takes over the descriptor, which must be in non-blocking mode.
func NewConn(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "lr-guard")
	if file == nil {
		return nil, syscall.EBADF
	}
	raw, err := file.SyscallConn()
	return &Conn{file: file, raw: raw}, err
}

// Close closes this end; the other end reads end of file.
func (c *Conn) Close() error { return c.file.Close() }

// Send writes the frame and waits until the other side has taken enough of it. Descriptors travel with
// the first byte (unix(7), SCM_RIGHTS).
func (c *Conn) Send(frame []byte, fds []int) error {
	for len(frame) > 0 {
		var n int
		var err error
		waitErr := c.raw.Write(func(fd uintptr) bool {
			n, err = sendPart(int(fd), frame, fds)
			return err != syscall.EAGAIN
		})
		if err = errors.Join(waitErr, err); err != nil {
			return err
		}
		frame, fds = frame[n:], nil
	}
	return nil
}

// TrySend writes as much as goes without waiting and returns the rest. Descriptors travel as with Send.
func (c *Conn) TrySend(data []byte, fds []int) ([]byte, error) {
	var n int
	var err error
	ctlErr := c.raw.Control(func(fd uintptr) { n, err = sendPart(int(fd), data, fds) })
	if err == syscall.EAGAIN {
		return data, nil
	}
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, err
	}
	return data[n:], nil
}

func sendPart(fd int, data []byte, fds []int) (int, error) {
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	for {
		n, err := syscall.SendmsgN(fd, data, rights, nil, sendFlags)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// Receive waits for a message. The descriptors that came with it are close-on-exec and the caller's.
func (c *Conn) Receive() (Message, []int, error) {
	for {
		if m, fds, ok, err := c.decoded(); ok || err != nil {
			return m, fds, err
		}
		if err := c.receiveMore(c.raw.Read); err != nil {
			return Message{}, nil, err
		}
	}
}

// TryReceive takes what is there, and says whether that was a whole message.
func (c *Conn) TryReceive() (Message, []int, bool, error) {
	once := func(receive func(fd uintptr) bool) error {
		return c.raw.Control(func(fd uintptr) { receive(fd) })
	}
	if err := c.receiveMore(once); err != nil && err != syscall.EAGAIN {
		return Message{}, nil, false, err
	}
	return c.decoded()
}

// decoded takes a message off what was received, if it is whole.
func (c *Conn) decoded() (m Message, fds []int, ok bool, err error) {
	if len(c.in) < lengthSize {
		return m, nil, false, nil
	}
	size := int(takeInt(c.in, lengthSize))
	if size > maxFrame {
		return m, nil, false, errFrame
	}
	if len(c.in) < lengthSize+size {
		return m, nil, false, nil
	}
	m, err = decode(c.in[lengthSize : lengthSize+size])
	if c.in = c.in[lengthSize+size:]; len(c.in) == 0 {
		c.in = nil // a command line can be large, and the guardian stays small
	}
	if m.Kind != Start {
		// One recvmsg(2) can return the end of this frame together with the Start behind it
		// and what came with that.
		return m, nil, true, err
	}
	fds, c.fds = c.fds, nil
	return m, fds, true, err
}

// receiveMore reads once. read is a method of the connection that waits, or one that does not.
func (c *Conn) receiveMore(read func(func(fd uintptr) bool) error) error {
	data := make([]byte, receiveSize)
	rights := make([]byte, syscall.CmsgSpace(MaxInherit*fdSize))
	var n, rightsLength int
	var err error
	waitErr := read(func(fd uintptr) bool {
		for {
			n, rightsLength, _, _, err = syscall.Recvmsg(int(fd), data, rights, receiveFlags)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	if waitErr != nil {
		return waitErr
	}
	if err != nil {
		return err
	}
	if rightsLength > 0 {
		if err := c.takeRights(rights[:rightsLength]); err != nil {
			return err
		}
	}
	if n == 0 {
		return io.EOF
	}
	c.in = append(c.in, data[:n]...)
	return nil
}

func (c *Conn) takeRights(rights []byte) error {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
		}
		c.fds = append(c.fds, fds...)
	}
	return nil
}
