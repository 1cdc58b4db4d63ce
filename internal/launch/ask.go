package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/runner"
)

// AskLimit is how long an answer is waited for: the socket's name says within which time it comes, and a little more.
// A wrapper that was stopped never answers.
func AskLimit(path string) time.Duration {
	const more = 200 * time.Millisecond
	limit := answerLimit(runner.DefaultTTL)
	if _, text, ok := strings.Cut(filepath.Base(path), socketPrefix); ok {
		if named, err := duration.Positive(text); err == nil {
			limit = named
		}
	}
	return limit + more
}

// AskRun asks the wrapper of a run.
func AskRun(ctx context.Context, path string, limit time.Duration) (CheckAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := exchange(ctx, path)
	if ctx.Err() != nil {
		err = fmt.Errorf("nothing came within %v", limit)
	}
	return answer, err
}

func exchange(ctx context.Context, path string) (answer CheckAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://leaderrun"+checkPath, nil)
	if err != nil {
		return answer, err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxQuestion,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
	response, err := transport.RoundTrip(request) // which follows nobody to another place
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict {
		return answer, fmt.Errorf("it says %s", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, MaxQuestion)).Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Leading && (response.StatusCode != http.StatusOK || answer.Left == nil) {
		return answer, errors.New("it contradicts itself")
	}
	return answer, nil
}
