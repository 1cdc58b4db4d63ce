package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	settleSpan  = 5 * time.Second  // from the start of a daemon until it is only waiting
	idleSpan    = 15 * time.Second // in which nothing is due
	leadSpan    = 25 * time.Second // from the start to the tick at least
	collectSpan = 3 * time.Minute  // from the tick; what has not begun by then is missed
	afterSpan   = 2 * time.Second  // for a run that is one too many, and for the end of the last
	lookSpan    = 200 * time.Millisecond
)

// turn is what one way made of one tick.
type turn struct {
	late        []float64     // ms from the tick to the start of the command, of each job that ran
	twice       int           // runs of a job that had run
	fresh, idle idleness      // before the tick and after it
	connections int           // at the backend at most, of those that were seen
	scripts     int           // that the backend ran
	cpu         time.Duration // of the daemons and all that they started
}

// idleness is what daemons cost when nothing is due.
type idleness struct {
	memory                float64 // MB, proportional set size
	cpu                   time.Duration
	requests, connections int // at the backend
}

// turn starts a way's daemons, looks at them while they wait, and collects what they start at the tick.
func (b *cronBench) turn(w cronWay, jobs int) (t turn, err error) {
	tick := time.Now().Add(leadSpan + time.Minute).Truncate(time.Minute)
	stamps := filepath.Join(b.dir, "stamps")
	if err := os.WriteFile(stamps, nil, 0o600); err != nil {
		return t, err
	}
	schedule := fmt.Sprintf("%d %d * * *", tick.Minute(), tick.Hour())
	crontab, err := b.crontab(jobs, func(n int) string { return fmt.Sprintf("%s %s %s %d", schedule, b.stamp, stamps, n) })
	if err != nil {
		return t, err
	}
	daemons, err := b.start(w, crontab)
	defer func() { err = errors.Join(err, daemons.stop(syscall.SIGTERM)) }()
	if err != nil {
		return t, err
	}
	time.Sleep(settleSpan)
	if t.fresh, err = daemons.idle(w.redis); err != nil {
		return t, err
	}
	if time.Now().After(tick) {
		return t, errors.New("the daemons were not ready before the tick")
	}
	err = daemons.watch(w.redis, &t, func() error {
		time.Sleep(time.Until(tick))
		for time.Since(tick) < collectSpan {
			if text, err := os.ReadFile(stamps); err != nil || bytes.Count(text, []byte{'\n'}) >= jobs {
				break
			}
			if err := t.lookAtConnections(w.redis); err != nil {
				return err
			}
			time.Sleep(lookSpan)
		}
		time.Sleep(afterSpan)
		return nil
	})
	if err != nil {
		return t, err
	}
	if t.idle, err = daemons.idle(w.redis); err != nil {
		return t, err
	}
	err = t.read(stamps, tick)
	return t, err
}

// crontab writes a crontab of jobs with names.
func (b *cronBench) crontab(jobs int, line func(n int) string) (path string, err error) {
	var text strings.Builder
	for n := range jobs {
		fmt.Fprintf(&text, "# job: bench-%d\n%s\n", n, line(n))
	}
	path = filepath.Join(b.dir, "crontab")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// read takes from the stamps what ran when.
func (t *turn) read(stamps string, tick time.Time) error {
	file, err := os.Open(stamps)
	if err != nil {
		return err
	}
	defer file.Close()
	ran := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var job string
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &job, &at); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if ran[job] {
			t.twice++
			continue
		}
		ran[job] = true
		t.late = append(t.late, ms(time.Unix(0, at).Sub(tick)))
	}
	return nil
}

func (t *turn) lookAtConnections(r *redis) error {
	if r == nil {
		return nil
	}
	now, err := r.counters()
	t.connections = max(t.connections, now.connections)
	return err
}

// daemons are those of a way that run now.
type daemons struct {
	log   string
	cmds  []*exec.Cmd
	ended chan *exec.Cmd // gets each when it has ended
}

// start starts a way's daemons. What they say goes to a file. It returns those that run even with an error.
func (b *cronBench) start(w cronWay, crontab string) (*daemons, error) {
	d := &daemons{log: filepath.Join(b.dir, "daemons.log"), ended: make(chan *exec.Cmd, w.daemons)}
	log, err := os.Create(d.log)
	if err != nil {
		return d, err
	}
	defer log.Close()
	for range w.daemons {
		cmd := exec.Command(w.words[0], append(w.words[1:len(w.words):len(w.words)], crontab)...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return d, err
		}
		d.cmds = append(d.cmds, cmd)
		go func() {
			_ = cmd.Wait() // its state is what counts
			d.ended <- cmd
		}()
	}
	return d, nil
}

// stop asks the daemons to end, and ends them if they do not.
func (d *daemons) stop(sig syscall.Signal) error {
	const patience = 10 * time.Second
	for _, cmd := range d.cmds {
		_ = cmd.Process.Signal(sig)
	}
	late := time.After(patience)
	for range d.cmds {
		select {
		case <-d.ended:
		case <-late:
			for _, cmd := range d.cmds {
				_ = cmd.Process.Kill()
			}
			return fmt.Errorf("a daemon did not end within %v", patience)
		}
	}
	return nil
}

// alive returns an error with the end of the log if a daemon has ended.
func (d *daemons) alive() error {
	select {
	case cmd := <-d.ended:
		d.ended <- cmd
		const tail = 500
		log, _ := os.ReadFile(d.log)
		return fmt.Errorf("a daemon has ended: %v: %s", cmd.ProcessState, log[max(0, len(log)-tail):])
	default:
		return nil
	}
}

// idle looks at the daemons while nothing is due.
func (d *daemons) idle(r *redis) (i idleness, err error) {
	before, err := d.spent(ownCPU)
	if err != nil {
		return i, errors.Join(err, d.alive())
	}
	var first, last counters
	if r != nil {
		if first, err = r.counters(); err != nil {
			return i, err
		}
	}
	time.Sleep(idleSpan)
	if r != nil {
		if last, err = r.counters(); err != nil {
			return i, err
		}
	}
	after, err := d.spent(ownCPU)
	i.cpu, i.requests, i.connections = after-before, last.commands-first.commands, last.connections
	for _, cmd := range d.cmds {
		mb, pssErr := pss(cmd.Process.Pid)
		i.memory, err = i.memory+mb, errors.Join(err, pssErr)
	}
	return i, errors.Join(err, d.alive())
}

// watch adds up what a tick costs.
func (d *daemons) watch(r *redis, t *turn, tick func() error) error {
	before, err := d.spent(treeCPU)
	if err != nil {
		return err
	}
	var first, last counters
	if r != nil {
		if first, err = r.counters(); err != nil {
			return err
		}
	}
	if err := tick(); err != nil {
		return err
	}
	if r != nil {
		if last, err = r.counters(); err != nil {
			return err
		}
	}
	after, err := d.spent(treeCPU)
	t.cpu, t.scripts = after-before, last.scripts-first.scripts
	return errors.Join(err, d.alive())
}

// spent adds up a measure of all daemons.
func (d *daemons) spent(measure func(pid int) (time.Duration, error)) (total time.Duration, err error) {
	for _, cmd := range d.cmds {
		one, oneErr := measure(cmd.Process.Pid)
		total, err = total+one, errors.Join(err, oneErr)
	}
	return total, err
}
