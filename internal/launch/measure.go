package launch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/metrics"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// patienceForMetrics is how long a file of metrics is waited for: other runs that write it, and its file system.
const patienceForMetrics = 10 * time.Second

// Textfiles write what --metrics-textfile asks for; nil: nobody asks. They never change how a run ends.
type Textfiles struct {
	console *cli.Console
	dir     string
	files   hangable

	mu   sync.Mutex
	told map[string]string // by job: why its file was not written the last time
	last string            // why none could be written when it was tried last; "": one could
}

// metricsOf is a job's file of metrics, as a thing that may hang; "": the directory.
type metricsOf string

// NewTextfiles makes those of a directory; "": none.
func NewTextfiles(v *cli.Console, dir string) *Textfiles {
	if dir == "" {
		return nil
	}
	return &Textfiles{console: v, dir: dir, told: map[string]string{}}
}

// Begin begins to count for the file of a job; nil: nobody asks.
func (t *Textfiles) Begin(job string) *metrics.Textfile {
	if t == nil {
		return nil
	}
	return metrics.NewTextfile(t.dir, job)
}

// Look tells at the start of a daemon what would keep every file from being written.
func (t *Textfiles) Look() {
	if t != nil {
		t.try("", PatienceToCheck, func() error { return metrics.CheckDirectory(t.dir) })
	}
}

// Write adds to the job's file what was counted, as long as its file system answers: who ends waits for this.
func (t *Textfiles) Write(job string, file *metrics.Textfile) {
	t.try(job, patienceForMetrics, file.Write)
}

func (t *Textfiles) try(job string, limit time.Duration, f func() error) {
	var failed error
	err := t.files.Call(context.Background(), limit, metricsOf(job), func() { failed = f() })
	if err = cmp.Or(err, failed); t.isNews(job, err) {
		warnOfMetrics(t.console, err)
	}
}

// isNews says whether an error is another one than before, for this job and for the directory, in which all of them fail for one reason.
func (t *Textfiles) isNews(job string, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := ""
	if err != nil {
		why = err.Error()
	}
	news := why != "" && why != t.told[job] && why != t.last
	t.told[job], t.last = why, why
	return news
}

// forget forgets a job that is not run any more.
func (t *Textfiles) forget(job string) {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.told, job)
	}
}

// Counted is an event as it is counted: all slots and shards of a job together.
func Counted(e runner.Event) runner.Event {
	e.Job = slots.Whole(e.Job)
	return e
}

// Instant is that of a tick; zero: there is none.
func Instant(tick int64) (at time.Time) {
	if tick != 0 {
		at = time.Unix(tick, 0)
	}
	return at
}

// warnOfMetrics says that a file of metrics could not be written.
func warnOfMetrics(v *cli.Console, err error) {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "make the directory, the one that the node exporter's textfile collector reads"
	case errors.Is(err, fs.ErrPermission):
		hint = "make the directory and what is in it writable for this user"
	}
	v.Warn("--metrics-textfile: "+err.Error(), hint)
}

// ParseDirectory reads the name of a directory, which need not be there yet.
func ParseDirectory(text string) (string, error) {
	if text == "" {
		return "", cli.ErrEmpty
	}
	return text, nil
}
