package s3fence

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"sync"
)

// asksFirst is from which size on, in bytes, the server is asked whether it wants an object before it is sent.
const asksFirst = 1 << 20

// attach makes the content that of a request. The caller closes it.
func (c Content) attach(r *http.Request) (io.Closer, error) {
	if _, err := c.Body.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	b := &body{from: io.LimitReader(c.Body, c.Size)}
	r.ContentLength = c.Size
	r.Header.Set("Content-Type", c.Type)
	r.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(c.SHA256[:])) // buckets with Object Lock want it
	if c.Size > 0 {
		r.Body = b
	}
	if c.Size >= asksFirst {
		r.Header.Set("Expect", "100-continue")
	}
	return b, nil
}

// body is that of one request. A server may answer in its middle; the client goes on reading it then, while the next try has
// begun to read the same content from its beginning. So it is cut off from the content when it is closed.
type body struct {
	mu   sync.Mutex // held while the content is read
	from io.Reader
	over bool
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errors.New("it was answered before it was sent")
	}
	return b.from.Read(p)
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	return nil
}
