package file

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Inspect implements backends.Inspector. It makes no file and takes the lock from nobody.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	return inTime(ctx, d.life, func(ctx context.Context) (backends.Status, error) {
		p := d.paths(job)
		if !p.exists() {
			return backends.Status{}, backends.ErrUnknownJob
		}
		turn, err := p.waitLock(ctx, p.beat, 0)
		switch {
		case err == nil:
			defer unlock(turn)
		case !errors.Is(err, fs.ErrNotExist):
			return backends.Status{}, permanent(err)
		}
		r, err := p.load()
		if err != nil {
			return backends.Status{}, err
		}
		s := &step{paths: p, record: r, now: time.Now()}
		l, err := s.probe()
		if err != nil {
			return backends.Status{}, err
		}
		return backends.StatusOf(s.view(s.ofRun(l), s.proof(s.readOwnerAt(s.lock))), job), nil
	})
}

// Jobs implements backends.Inspector. A record that cannot be read does not hide the others.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	return inTime(ctx, d.life, func(context.Context) ([]string, error) {
		entries, err := os.ReadDir(d.dir)
		if err != nil {
			return nil, permanent(err)
		}
		var names []string
		var unread error
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), recordSuffix) || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			name, err := d.jobOf(entry.Name())
			switch {
			case err != nil:
				unread = cmp.Or(unread, err)
			case name != "":
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, unread
	})
}
