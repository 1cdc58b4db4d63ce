package servers

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// What is tested on a server that lets two of one version through proves nothing. Of several that write on condition of the same
// version one gets through, and of several that create one.
func TestS3ComparesAndWritesInOneStep(t *testing.T) {
	t.Parallel()
	s := S3(t, S3Options{})
	const rounds, writers = 300, 8
	etag := ""
	for i := range rounds {
		key, condition := fmt.Sprintf("/bucket/new-%d", i), map[string]string{"If-None-Match": "*"}
		if i%3 != 0 {
			key, condition = fmt.Sprintf("/bucket/new-%d", i-i%3), map[string]string{"If-Match": etag}
		}
		var passed atomic.Int32
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				r, err := s.Ask(t.Context(), "PUT", key, fmt.Sprintf("%d %d", i, w), condition)
				if err != nil {
					t.Error(err)
					return
				}
				_ = r.Body.Close()
				switch r.StatusCode {
				case http.StatusOK:
					passed.Add(1)
					etag = r.Header.Get("ETag")
				case http.StatusPreconditionFailed, http.StatusConflict:
				default:
					t.Errorf("round %d: %s", i, r.Status)
				}
			})
		}
		all.Wait()
		if n := passed.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d writers got through with %v", i, n, writers, condition)
		}
	}
}
