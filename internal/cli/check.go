package cli

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

func checkCommand() *command {
	return &command{
		name: "check", brief: "inside a run: ask whether it still leads",
		about: `For the command of a run, before a step that must not be done twice. It asks the backend now, and prints
for how many milliseconds the run leads at least. The exit code is 75 if the run does not lead any more,
or if nobody can tell within a sixth of the TTL.

The same over HTTP: curl --unix-socket "$LEADERRUN_SOCKET" http://leaderrun/check answers 200 or 409,
with an object that has leading, left_ms, job, token and reason.`,
		examples: []exampleLine{
			{"go on only while this run leads", "leaderrun run report sh -c 'leaderrun check >left.txt && report --full'"},
		},
		options: commonOptions(), run: runCheck,
	}
}

func runCheck(c *call) (ExitStatus, error) {
	if len(c.args) > 0 {
		return ExitStatus{}, usage("check", "takes no arguments", "it asks about the run that it is called in")
	}
	path, ok := c.settings.lookup(socketVariable)
	if !ok || path == "" {
		return ExitStatus{}, usage(socketVariable, "is not set", "`leaderrun check` is for the command of `leaderrun run`, which sets it")
	}
	ctx, cancel := c.context()
	defer cancel()
	answer, err := askRun(ctx, path, askLimit(path))
	switch {
	case err != nil:
		return ExitStatus{}, &fault{code: codeLost, what: "this run does not lead", why: "no answer from leaderrun: " + err.Error(), err: err}
	case !answer.Leading:
		return ExitStatus{}, &fault{code: codeLost, what: "this run does not lead", why: answer.Reason}
	}
	return ExitStatus{}, c.print(fmt.Sprintln(*answer.Left))
}

// askLimit is how long an answer is waited for: the socket's name says within which time it comes, and a little more.
// A wrapper that was stopped never answers.
func askLimit(path string) time.Duration {
	const more = 200 * time.Millisecond
	limit := answerLimit(runner.DefaultTTL)
	if _, text, ok := strings.Cut(filepath.Base(path), socketPrefix); ok {
		if named, err := duration.Positive(text); err == nil {
			limit = named
		}
	}
	return limit + more
}

// askRun asks the wrapper of a run.
func askRun(ctx context.Context, path string, limit time.Duration) (checkAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := exchange(ctx, path)
	if ctx.Err() != nil {
		err = fmt.Errorf("nothing came within %v", limit)
	}
	return answer, err
}

func exchange(ctx context.Context, path string) (answer checkAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://leaderrun"+checkPath, nil)
	if err != nil {
		return answer, err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxQuestion,
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
	if err := json.NewDecoder(io.LimitReader(response.Body, maxQuestion)).Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Leading && (response.StatusCode != http.StatusOK || answer.Left == nil) {
		return answer, errors.New("it contradicts itself")
	}
	return answer, nil
}
