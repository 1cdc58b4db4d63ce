package s3fence_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// The server says no in the middle of an upload, while the client is reading the content. Who tries again would read it from its
// beginning at the same time, and two readers of one file send each other's bytes.
func TestNobodyReadsABodyAfterItsAnswer(t *testing.T) {
	t.Parallel()
	content := &slowContent{Reader: bytes.NewReader(make([]byte, 1<<19)), second: make(chan struct{})}
	b, err := s3fence.NewBucket(s3fence.Config{
		Name: "b", Endpoint: "http://s3.example.com",
		Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, there) }()
				<-content.second
				_, _ = io.WriteString(there, "HTTP/1.1 503 Slow Down\r\nContent-Length: 2\r\n\r\nno")
			}()
			return here, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := s3fence.Content{Body: content, Size: int64(content.Len())}
	err = b.Put(t.Context(), "k", c, s3fence.Condition{Always: true})
	if content.busy.Load() {
		t.Error("it is still being read")
	}
	reads := content.reads.Load()
	if err == nil || reads < 2 {
		t.Errorf("after %d reads: %v", reads, err)
	}
}

// slowContent takes its time for the second piece, longer than a client waits for the end of a request that was answered.
type slowContent struct {
	*bytes.Reader

	second chan struct{} // closed when it is asked for
	reads  atomic.Int32
	busy   atomic.Bool
}

func (s *slowContent) Read(p []byte) (int, error) {
	s.busy.Store(true)
	defer s.busy.Store(false)
	if s.reads.Add(1) == 2 {
		close(s.second)
		time.Sleep(300 * time.Millisecond)
	}
	return s.Reader.Read(p)
}
