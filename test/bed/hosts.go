package bed

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

const endOfOutput = 4096

// work lets every host want its jobs until the context ends, and returns when nothing is started any more.
func (b *Bed) work(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for i, host := range Hosts {
		for k, j := range b.jobs() {
			chance := rand.New(rand.NewPCG(b.Seed, uint64(10*k+i+1))) //nolint:gosec // it has to be the same again
			all.Go(func() { b.again(ctx, j.every, func() { b.want(ctx, host, j, chance) }) })
		}
	}
	return all.Wait
}

// want lets a host want a job until it has ended, or the host goes. Then it is away for a while.
func (b *Bed) want(ctx context.Context, host string, j job, chance *rand.Rand) {
	life, stay := j.life.draw(chance), j.stay.draw(chance)
	if b.Lasting && stands(j.name) {
		life, stay = forever, 0
	}
	b.start(host, j, life, stay, j.options(chance))
	select {
	case <-ctx.Done():
	case <-time.After(j.away.draw(chance)):
	}
}

// again does something at every multiple of a period, as cron does, or all the time. What takes longer leaves some out.
func (b *Bed) again(ctx context.Context, every time.Duration, do func()) {
	for {
		pause := pauseOfHost
		if every > 0 {
			pause = time.Until(time.Now().Truncate(every).Add(every))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			if ctx.Err() == nil {
				do()
			}
		}
	}
}

// start starts a wrapper of a job on a host and waits for its end. It is asked to end when its stay is over; 0: it never is.
func (b *Bed) start(host string, j job, life, stay time.Duration, options []string) {
	number := int(b.started.Add(1))
	words := slices.Concat(b.Net.Where(host), b.words(j.name, options),
		[]string{b.Programs.Witness, b.Dir, j.name, host, life.String(), strconv.Itoa(number)})
	if j.stubborn {
		words = append(words, "stubborn")
	}
	said, err := os.CreateTemp(b.Dir, "said-")
	if err != nil {
		b.T.Error(err)
		return
	}
	defer func() { _, _ = said.Close(), os.Remove(said.Name()) }()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = said, said
	// A session of its own: what happens to one host does not happen to another, nor to the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end := End{Job: j.name, Host: host, Began: boottime.Now()}
	if err := cmd.Start(); err != nil {
		b.T.Error(err)
		return
	}
	end.PID = cmd.Process.Pid
	b.mu.Lock()
	b.wrappers[end.PID], b.pids[number] = &end, end.PID
	if stands(j.name) {
		b.latest[place{j.name, host}] = end.PID
	}
	b.mu.Unlock()
	if stay > 0 {
		leave := time.AfterFunc(stay, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer leave.Stop()
	}
	_ = cmd.Wait()
	b.ended(end, cmd.ProcessState, said)
}

// words are those of leaderrun or of a peer before the command.
func (b *Bed) words(job string, options []string) []string {
	if !b.Way.Ticks {
		return b.Way.Words(b.Running, job, b.Store.TTL)
	}
	return slices.Concat([]string{
		b.Programs.Leaderrun, "run", "--backend", b.Running.URL, "--ttl", b.Store.TTL.String(), "--log-level", "info",
	}, options, []string{job, "--"})
}

func (b *Bed) ended(end End, state *os.ProcessState, said *os.File) {
	end.Ended = boottime.Now()
	if status, _ := state.Sys().(syscall.WaitStatus); status.Signaled() {
		end.Code = 128 + int(status.Signal())
	} else {
		end.Code = status.ExitStatus()
	}
	if size, err := said.Seek(0, io.SeekEnd); err == nil {
		text := make([]byte, min(size, endOfOutput))
		if _, err := said.ReadAt(text, size-int64(len(text))); err == nil {
			end.Said = string(text)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.wrappers, end.PID)
	b.ends = append(b.ends, end)
}
