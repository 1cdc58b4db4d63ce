package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// ServeHTTP serves what was counted, and what there is to know of this process.
func (s *Set) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := s.text(processFamilies(s.started)...)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.FmtText))
	out := io.Writer(w)
	if strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") { // thousands of jobs are megabytes
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		defer packed.Close()
		out = packed
	}
	_, _ = out.Write(text) // there is nobody to tell
}

// text writes what was counted, and some more.
func (s *Set) text(more ...*family) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return textOf(slices.Concat(s.families, more))
}
