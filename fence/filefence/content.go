package filefence

import (
	"io/fs"
	"os"
	"sync"
)

// content is what a run writes into its temporary file.
type content struct {
	step func(place string)

	mu     sync.Mutex
	file   *os.File
	failed error // the first one counts, whether or not who writes looks at it: nothing is left out
	closed bool
}

// Write implements io.Writer.
func (c *content) Write(p []byte) (int, error) {
	c.step("before a part of the content")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, fs.ErrClosed
	}
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.file.Write(p)
	c.failed = unusable(err)
	return n, c.failed
}

// close lets nothing more in, and says whether all was written.
func (c *content) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.failed
}
