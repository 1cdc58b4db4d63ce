package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaderrun/leaderrun/internal/cli"
)

// The bytes of a line of prefixed output; a longer one is broken, and each piece has the prefix.
const (
	longestLine     = 64 << 10
	longestUserLine = 4 << 10 // with the prefix: the journal breaks at 48K, and what came then would stand there without it
)

// prefix stands before each line of the command. That of another user has one always: its lines could pass for the daemon's, and the
// daemon's own stdout is nothing for it to hold open.
func (t *launched) prefix() string {
	if t.job.User != "" && t.job.Prefix == "" {
		return "[" + cli.OneLine(t.job.Name) + "] "
	}
	return t.job.Prefix
}

// copyLines writes what a command says, each line with the job's prefix.
func (t *launched) copyLines(to io.Writer, pipe *os.File) {
	defer pipe.Close()
	from := &drained{File: pipe}
	if t.job.User != "" {
		t.copyVisibleLines(to, from)
		return
	}
	lines := bufio.NewReaderSize(from, longestLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			whole := append([]byte(t.prefix()), line...)
			if whole[len(whole)-1] != '\n' {
				whole = append(whole, '\n')
			}
			t.write(to, whole)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// copyVisibleLines is copyLines for another user's command, which may want its lines to pass for the daemon's: the journal ends a
// line at a NUL too, and a terminal may write over the prefix. Control characters but tabs are written as \x00.
func (t *launched) copyVisibleLines(to io.Writer, from io.Reader) {
	in := bufio.NewReaderSize(from, longestUserLine)
	prefix := t.prefix()
	line := []byte(prefix)
	end := func() {
		t.write(to, append(line, '\n'))
		line = append(line[:0], prefix...)
	}
	for {
		r, size, err := in.ReadRune()
		if err != nil {
			if len(line) > len(prefix) {
				end()
			}
			return
		}
		if r == '\n' {
			end()
			continue
		}
		text := utf8.AppendRune(nil, r)
		if r == utf8.RuneError && size == 1 { // no UTF-8: the byte itself
			_ = in.UnreadRune()
			text[0], _ = in.ReadByte()
			text, r = text[:1], rune(text[0])
		}
		switch {
		case unicode.IsControl(r) && r != '\t':
			text = fmt.Appendf(nil, `\x%02x`, r)
		case unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp): // what follows would stand elsewhere
			text = fmt.Appendf(nil, `\u%04x`, r)
		}
		if len(line)+len(text)+len("\n") > longestUserLine && len(line) > len(prefix) {
			end()
		}
		line = append(line, text...)
	}
}

// write writes a line, which no other one breaks.
func (t *launched) write(to io.Writer, line []byte) {
	t.output.Lock()
	defer t.output.Unlock()
	_, _ = to.Write(line) // there is nobody to tell
}

// pipes are our ends of the pipes of an attempt's commands.
type pipes struct {
	mu  sync.Mutex
	all []*os.File
}

func (p *pipes) add(f *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, f)
}

// leave ends the wait for whoever holds the other ends. Those who wait close ours.
func (p *pipes) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.all {
		_ = f.SetDeadline(time.Now())
	}
}

// drained reads a pipe to its end, or after its deadline what is still in it.
type drained struct {
	*os.File
	late int // bytes that were read after the deadline
}

// fullPipe is what a pipe can hold, unless root has given it more: see fs.pipe-max-size in pipe(7).
const fullPipe = 1 << 20

// Read implements io.Reader. After the deadline it does not wait, and does not go on for ever with who writes for ever.
func (d *drained) Read(into []byte) (n int, err error) {
	n, err = d.File.Read(into)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := d.SyscallConn()
	if err == nil && d.late < fullPipe {
		err = raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), into) })
	}
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	d.late += n
	return n, nil
}
