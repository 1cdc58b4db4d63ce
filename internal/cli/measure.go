package cli

import (
	"errors"
	"io/fs"
	"time"

	"github.com/leaderrun/leaderrun/internal/metrics"
	"github.com/leaderrun/leaderrun/runner"
)

// patienceForMetrics is how long a file of metrics is waited for: other runs that write it, and its file system.
const patienceForMetrics = 10 * time.Second

// measured is what --metrics-textfile asks for; nil: nobody asks. It never changes how the run ends.
type measured struct {
	console *console
	file    *metrics.Textfile
	job     string
	tick    int64 // Unix seconds; 0: none
}

// measure begins to count for the file in dir, if there is one to write.
func (c *call) measure(dir string, request runner.Request) *measured {
	if dir == "" {
		return nil
	}
	return &measured{
		console: c.console, file: metrics.NewTextfile(dir, request.Job), job: request.Job, tick: request.Trigger.Tick,
	}
}

// observe returns an observer of events that are counted, and then told to the next.
func (m *measured) observe(next func(runner.Event)) func(runner.Event) {
	if m == nil {
		return next
	}
	return func(e runner.Event) {
		counted := e
		counted.Job = m.job // whichever slot
		m.file.Observe(counted)
		next(e)
	}
}

// ended writes the file.
func (m *measured) ended(r runner.Result) {
	if m == nil {
		return
	}
	var tick time.Time
	if m.tick != 0 {
		tick = time.Unix(m.tick, 0)
	}
	m.file.Ended(m.job, r, tick, time.Now())
	if _, err := within(patienceForMetrics, func() (string, error) { return "", m.file.Write() }); err != nil {
		m.console.warnOfMetrics(err)
	}
}

// warnOfMetrics says that a file of metrics could not be written.
func (v *console) warnOfMetrics(err error) {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "make the directory, the one that the node exporter's textfile collector reads"
	case errors.Is(err, fs.ErrPermission):
		hint = "make the directory and what is in it writable for this user"
	}
	v.warn("--metrics-textfile: "+err.Error(), hint)
}

// parseDirectory reads the name of a directory, which need not be there yet.
func parseDirectory(text string) (string, error) {
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}
