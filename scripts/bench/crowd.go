package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// crowd is one holder of a job and those that stand by for it, all of one way.
type crowd struct {
	way
	words   []string
	size    int // standbys
	log     *os.File
	desk    *desk
	holder  *seat
	members map[int]*exec.Cmd // by process
	ended   chan *exec.Cmd    // gets each when it has ended
	quiet   int               // clients that the server tells of changes without a crowd
	idle    idling
}

// idling is what a crowd costs while nothing happens.
type idling struct {
	requests float64 // per minute
	wakeups  float64 // of a standby, per minute
	cpu      float64 // of all standbys, ms per minute
	memory   float64 // of all standbys, MB
}

// gather starts a holder and, when its command runs, those that stand by. It returns when all do. The crowd is to be
// dismissed even with an error.
func gather(dir string, w way, size int) (c *crowd, err error) {
	job := fmt.Sprintf("crowd-%d", size)
	c = &crowd{way: w, size: size, members: map[int]*exec.Cmd{}, ended: make(chan *exec.Cmd, 1)}
	if dir, err = os.MkdirTemp(dir, "crowd"); err != nil {
		return c, err
	}
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	socket := filepath.Join(dir, "desk")
	if c.desk, err = openDesk(socket); err != nil {
		return c, err
	}
	if c.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return c, err
	}
	if w.server != nil {
		if c.quiet, err = w.server.hush(); err != nil {
			return c, err
		}
	}
	c.words = append(w.queue(job), self, seatRole, socket)
	if err := c.join(); err != nil {
		return c, err
	}
	if c.holder, err = c.desk.next(); err != nil {
		err = c.why(err)
		return c, err
	}
	for range size {
		if err := c.join(); err != nil {
			return c, err
		}
	}
	err = c.assemble(size)
	return c, err
}

// join starts one more.
func (c *crowd) join() error {
	cmd := exec.Command(c.words[0], c.words[1:]...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if err := cmd.Start(); err != nil {
		return err
	}
	c.members[cmd.Process.Pid] = cmd
	go func() {
		_ = cmd.Wait() // its state is what counts
		c.ended <- cmd
	}()
	return nil
}

// assemble waits until so many stand by.
func (c *crowd) assemble(size int) error {
	const patience, pause = 3 * time.Minute, 20 * time.Millisecond
	standing := 0
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		select {
		case gone := <-c.ended:
			delete(c.members, gone.Process.Pid)
			return c.why(fmt.Errorf("a member has ended: %v", gone.ProcessState))
		default:
		}
		var err error
		if standing, err = c.standing(); err != nil {
			return err
		}
		if standing >= size {
			return nil
		}
	}
	return c.why(fmt.Errorf("only %d of %d stand by after %v", standing, size, patience))
}

// standing returns how many stand by: their server knows, or else the kernel.
func (c *crowd) standing() (int, error) {
	if c.server == nil {
		pids := map[int]bool{}
		for pid := range c.members {
			pids[pid] = true
		}
		return queued(pids)
	}
	told, err := c.server.told()
	return told - c.quiet - c.tells, err
}

// why adds to an error what the members said last.
func (c *crowd) why(err error) error {
	const tail = 500
	log, _ := os.ReadFile(c.log.Name())
	return fmt.Errorf("%w: %s", err, log[max(0, len(log)-tail):])
}

// waiting returns the members that stand by.
func (c *crowd) waiting() (pids []int) {
	for pid := range c.members {
		if c.holder == nil || !slices.Contains(family(pid), c.holder.pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lookAt notes what members have used with all below them. One that has ended does not count.
func lookAt(members []int) map[int]usage {
	seen := map[int]usage{}
	for _, member := range members {
		for _, pid := range family(member) {
			if u, err := used(pid); err == nil {
				seen[pid] = u
			}
		}
	}
	return seen
}

func (c *crowd) requests() (int, error) {
	if c.server == nil {
		return 0, nil
	}
	return c.server.requests()
}

// stand looks for a while at what the crowd costs while nothing happens.
func (c *crowd) stand(span time.Duration) (err error) {
	waiting := c.waiting()
	if c.idle.memory, err = memoryOf(waiting); err != nil {
		return err
	}
	s, err := c.observe(waiting, func() error {
		time.Sleep(span)
		return nil
	})
	c.idle.requests = perMinute(float64(s.requests), s.took)
	c.idle.cpu = perMinute(ms(s.used.cpu), s.took)
	c.idle.wakeups = perMinute(float64(s.used.wakeups), s.took) / float64(len(waiting))
	return err
}

// span is what happened while something was done.
type span struct {
	took     time.Duration
	requests int
	used     usage // by members
}

// observe adds up what members use while something is done, and the requests. What the server uses is not asked for:
// much of it is for its answers to our questions.
func (c *crowd) observe(members []int, do func() error) (s span, err error) {
	before := lookAt(members)
	first, err := c.requests()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return s, err
	}
	last, err := c.requests()
	if err != nil {
		return s, err
	}
	s.took, s.requests = time.Since(began), last-first
	s.used = usedSince(before, lookAt(members))
	return s, nil
}

// memoryOf adds up the proportional set sizes of processes and all below them.
func memoryOf(members []int) (total float64, err error) {
	for _, member := range members {
		for _, pid := range family(member) {
			mb, err := pss(pid)
			if err != nil {
				return 0, err
			}
			total += mb
		}
	}
	return total, nil
}

// change is what a handover takes.
type change struct {
	gap      time.Duration // from the end of one run to the start of the next
	requests float64       // of all, beyond those of the time before; below 0 where few drown in many
	cpu      float64       // ms of those that stood by, likewise
}

// handover ends the command that runs, waits until the next one does and all is as before, and lets one more join.
func (c *crowd) handover() (h change, err error) {
	s, err := c.observe(c.waiting(), func() error {
		ended, err := c.holder.end()
		if err != nil {
			return c.why(err)
		}
		if c.holder, err = c.desk.next(); err != nil {
			return c.why(err)
		}
		h.gap = c.holder.began.Sub(ended)
		former := <-c.ended
		delete(c.members, former.Process.Pid)
		if !former.ProcessState.Success() {
			return c.why(fmt.Errorf("a member has ended: %v", former.ProcessState))
		}
		return cmp.Or(c.assemble(c.size-1), c.calm())
	})
	if err != nil {
		return h, err
	}
	h.requests = float64(s.requests) - c.idle.requests*s.took.Minutes()
	h.cpu = ms(s.used.cpu) - c.idle.cpu*s.took.Minutes()
	return h, cmp.Or(c.join(), c.assemble(c.size))
}

// calm waits until the server gets hardly more requests than while nothing happens, but not for ever.
func (c *crowd) calm() error {
	const patience, look, calmLooks, much = 15 * time.Second, 100 * time.Millisecond, 3, 2
	last, err := c.requests()
	if c.server == nil || err != nil {
		return err
	}
	for began, calm := time.Now(), 0; calm < calmLooks && time.Since(began) < patience; calm++ {
		time.Sleep(look)
		now, err := c.requests()
		if err != nil {
			return err
		}
		if float64(now-last) > much*(1+c.idle.requests*look.Minutes()) {
			calm = -1
		}
		last = now
	}
	return nil
}

// dismiss ends those that stand by, and then the holder.
func (c *crowd) dismiss() error {
	const patience = time.Minute
	if c.desk != nil {
		defer func() { _ = c.desk.listener.Close() }()
	}
	waiting := c.waiting()
	for _, pid := range waiting {
		_ = c.members[pid].Process.Signal(syscall.SIGTERM)
	}
	all := len(c.members)
	late := time.After(patience)
	for len(c.members) > 0 {
		if c.holder != nil && len(c.members)+len(waiting) <= all {
			_, _ = c.holder.end()
			c.holder = nil
		}
		select {
		case member := <-c.ended:
			delete(c.members, member.Process.Pid)
		case <-late:
			for _, member := range c.members {
				_ = member.Process.Kill()
			}
			return errors.Join(fmt.Errorf("%s: %d did not end within %v", c.name, len(c.members), patience), c.log.Close())
		}
	}
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}
