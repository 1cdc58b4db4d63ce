package guardian

import (
	"errors"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

// Kind says what a message is about.
type Kind byte

// What the wrapper tells the guardian.
const (
	Setup     Kind = iota + 1 // once, first: the cgroup to make
	Start                     // run the command; descriptors to inherit come along
	Extend                    // the run may live longer
	Signal                    // pass a signal on
	Terminate                 // SIGTERM now
	Kill                      // SIGKILL to the whole tree now
	Dismiss                   // nothing runs: go, and leave locks alone
)

// What the guardian tells the wrapper.
const (
	Started     Kind = iota + 64 // the answer to Start
	Ack                          // the answer to Extend
	Stopped                      // a stop signal stopped the command
	Exited                       // the command ended
	Leftovers                    // processes outlived the command
	Killing                      // SIGKILL was sent; repeated while anything is left
	Unconfirmed                  // SIGKILL was sent a while ago and something is left
	Dead                         // nothing is left
	Termed                       // SIGTERM was sent because the deadline was not extended in time
)

// Message is one frame on the control channel.
type Message struct {
	Kind    Kind
	Numbers []int64
	Strings []string
}

// Number returns number i, or 0 where the message has fewer.
func (m Message) Number(i int) int64 {
	if i < len(m.Numbers) {
		return m.Numbers[i]
	}
	return 0
}

// errFrame: the other side sent what is no message. It cannot happen, and is treated like its death.
var errFrame = errors.New("control channel: broken frame")

// A frame is the length of what follows (4 bytes), the kind, the count of numbers (1 byte each), the
// numbers (8 bytes each), and strings, each after its length (4 bytes). All little-endian.
const (
	lengthSize = 4
	headSize   = 2
	numberSize = 8
	// maxFrame is above any argv and environment that Linux accepts (6 MB, execve(2)).
	maxFrame = 64 << 20
)

// Encode makes the frame.
func (m Message) Encode() []byte {
	size := headSize + numberSize*len(m.Numbers)
	for _, s := range m.Strings {
		size += lengthSize + len(s)
	}
	frame := make([]byte, 0, lengthSize+size)
	frame = appendInt(frame, uint64(size), lengthSize)
	frame = append(frame, byte(m.Kind), byte(len(m.Numbers)))
	for _, n := range m.Numbers {
		frame = appendInt(frame, uint64(n), numberSize)
	}
	for _, s := range m.Strings {
		frame = append(appendInt(frame, uint64(len(s)), lengthSize), s...)
	}
	return frame
}

// decode reads a frame without its length.
func decode(body []byte) (Message, error) {
	if len(body) < headSize || len(body) < headSize+numberSize*int(body[1]) {
		return Message{}, errFrame
	}
	m := Message{Kind: Kind(body[0]), Numbers: make([]int64, body[1])}
	body = body[headSize:]
	for i := range m.Numbers {
		m.Numbers[i] = int64(takeInt(body, numberSize))
		body = body[numberSize:]
	}
	for len(body) > 0 {
		if len(body) < lengthSize {
			return Message{}, errFrame
		}
		length := int(takeInt(body, lengthSize))
		if body = body[lengthSize:]; length > len(body) {
			return Message{}, errFrame
		}
		m.Strings = append(m.Strings, string(body[:length]))
		body = body[length:]
	}
	return m, nil
}

func appendInt(b []byte, n uint64, size int) []byte {
	for range size {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

func takeInt(b []byte, size int) uint64 {
	var n uint64
	for i := range size {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}

// StartRequest is what Start carries.
type StartRequest struct {
	Deadline   lifeline.Deadline
	Grace      time.Duration
	Group      int  // the process group to join; 0: a new one
	WatchStops bool // report when a signal stops the command
	Path, Dir  string
	Socket     string // to be removed after the wrapper's death, and its directory
	Holder     string // the holder of the run, to be shown; "": as before
	Argv, Env  []string
	As         *Credential // nil: who the guardian is
	Inherit    int         // how many of the descriptors that come along, the first ones, the command gets
}

// Credential is who a command runs as. The kernel is given it in the new process, before exec(2): the groups, which are all that it
// has then, the group, the user, each as the real, the effective and the saved one, so that there is no way back.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
}

const idSize = 4

// text is the credential as a string of a message; "": there is none.
func (c *Credential) text() string {
	if c == nil {
		return ""
	}
	var b []byte
	for _, id := range append([]uint32{c.UID, c.GID}, c.Groups...) {
		b = appendInt(b, uint64(id), idSize)
	}
	return string(b)
}

// credentialOf reads a credential; nil: the text is empty. A text that makes no sense is an error: taken for none, it would leave the
// command root's rights.
func credentialOf(text string) (*Credential, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there is none, and that is right
	}
	if len(text) < 2*idSize || len(text)%idSize != 0 {
		return nil, errFrame
	}
	var ids []uint32
	for b := []byte(text); len(b) > 0; b = b[idSize:] {
		ids = append(ids, uint32(takeInt(b, idSize))) //nolint:gosec // four bytes
	}
	return &Credential{UID: ids[0], GID: ids[1], Groups: ids[2:]}, nil
}

// Message returns the request as a message.
func (r StartRequest) Message() Message {
	d := r.Deadline
	strings := append([]string{r.Path, r.Dir, r.Socket, r.As.text(), r.Holder}, r.Argv...)
	return Message{
		Kind: Start,
		Numbers: []int64{
			int64(d.Term), int64(d.Kill), int64(d.End),
			int64(r.Grace), int64(r.Group), oneIf(r.WatchStops), int64(len(r.Argv)), int64(r.Inherit),
		},
		Strings: append(strings, r.Env...),
	}
}

func (m Message) startRequest() (StartRequest, error) {
	const fixed = 5
	argc := int(m.Number(6))
	if len(m.Strings) < fixed || argc < 1 || argc > len(m.Strings)-fixed {
		return StartRequest{}, errFrame
	}
	as, err := credentialOf(m.Strings[3])
	if err != nil {
		return StartRequest{}, err
	}
	rest := m.Strings[fixed:]
	return StartRequest{
		Deadline: m.deadline(0), Grace: time.Duration(m.Number(3)),
		Group: int(m.Number(4)), WatchStops: m.Number(5) != 0,
		Path: m.Strings[0], Dir: m.Strings[1], Socket: m.Strings[2], Holder: m.Strings[4], Argv: rest[:argc], Env: rest[argc:],
		As: as, Inherit: int(m.Number(7)),
	}, nil
}

// ExtendMessage carries a new deadline; its Ack brings the sequence number back.
func ExtendMessage(sequence int64, d lifeline.Deadline) Message {
	return Message{Kind: Extend, Numbers: []int64{sequence, int64(d.Term), int64(d.Kill), int64(d.End)}}
}

func (m Message) deadline(at int) lifeline.Deadline {
	return lifeline.Deadline{
		Term: boottime.Instant(m.Number(at)),
		Kill: boottime.Instant(m.Number(at + 1)),
		End:  boottime.Instant(m.Number(at + 2)),
	}
}

func statusMessage(kind Kind, s lifeline.Status) Message {
	return Message{Kind: kind, Numbers: []int64{oneIf(s.Known), int64(s.Code), int64(s.Signal)}}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Status returns how the command ended, as Exited and Dead tell it.
func (m Message) Status() lifeline.Status {
	return lifeline.Status{Known: m.Number(0) != 0, Code: int(m.Number(1)), Signal: syscall.Signal(m.Number(2))}
}
