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

// What the jobs of a bed are like. The worker comes to its end now and then, so that there are clean handovers too.
const (
	workerShortest = 4 * time.Second
	workerSpread   = 20 * time.Second
	skipEvery      = 3 * time.Second
	skipLife       = 100 * time.Millisecond
	rerunEvery     = 6 * time.Second
	rerunLife      = 700 * time.Millisecond
	forever        = 24 * time.Hour
	pauseOfHost    = 300 * time.Millisecond // before something that has ended is started again
	endOfOutput    = 4096
)

// work lets every host want its jobs until the context ends, and returns when nothing is started any more.
func (b *Bed) work(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for i, host := range Hosts {
		chance := rand.New(rand.NewPCG(b.Seed, uint64(i+1))) //nolint:gosec // it has to be the same again
		all.Go(func() {
			b.again(ctx, 0, func() {
				life := workerShortest + time.Duration(chance.Int64N(int64(workerSpread)))
				if b.Lasting {
					life = forever
				}
				b.start(host, JobWorker, life, b.standbyOptions())
			})
		})
		if b.Way.Ticks {
			all.Go(func() {
				b.again(ctx, skipEvery, func() { b.start(host, JobSkip, skipLife, []string{"--every", skipEvery.String()}) })
			})
			all.Go(func() {
				options := []string{"--every", rerunEvery.String(), "--on-lost", "rerun", "--max-attempts", "100000"}
				b.again(ctx, rerunEvery, func() { b.start(host, JobRerun, rerunLife, options) })
			})
		}
	}
	return all.Wait
}

func (b *Bed) standbyOptions() []string {
	if !b.Way.Ticks {
		return nil
	}
	return []string{"--wait", "forever", "--backend-wait", "1h"}
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

// start starts a wrapper of a job on a host and waits for its end.
func (b *Bed) start(host, job string, life time.Duration, options []string) {
	number := int(b.started.Add(1))
	words := slices.Concat(b.Net.Where(host), b.words(job, options),
		[]string{b.Programs.Witness, b.Dir, job, host, life.String(), strconv.Itoa(number)})
	if job == JobWorker {
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
	end := End{Job: job, Host: host, Began: boottime.Now()}
	if err := cmd.Start(); err != nil {
		b.T.Error(err)
		return
	}
	end.PID = cmd.Process.Pid
	b.mu.Lock()
	b.wrappers[end.PID], b.pids[number] = &end, end.PID
	if job == JobWorker {
		b.standing[host] = end.PID
	}
	b.mu.Unlock()
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
