package bed

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// Ordeal says what a bed goes through.
type Ordeal struct {
	Length time.Duration // of all, from the start of the servers to the end of the last process
	Faults []Fault       // that can happen to the bed; each comes up as often as the others
	// Together: now and then two at once. Else each of them is alone.
	Together bool
}

// Waits of the bed, in TTLs. It goes on when they are over: whether somebody took over in time is for Judge to say.
const (
	firstRun = 30 // a server that was just started may grant nothing for 30 s
	settling = 8
)

// Torment lets the hosts work and the faults happen at random, and returns what came of it when everything is mended and still.
func (b *Bed) Torment(o Ordeal) (Log, error) {
	end := b.begin()
	defer func() { _, _ = end() }()
	chance := rand.New(rand.NewPCG(b.Seed, chanceOfTurns)) //nolint:gosec // it has to be the same again
	prey := rand.New(rand.NewPCG(b.Seed, chanceOfPrey))    //nolint:gosec // it has to be the same again
	deck := &deck{chance: chance, all: o.Faults, ttl: b.Store.TTL}
	for b.began.Add(o.Length-b.rest(o.Length)) > boottime.Now() {
		turn := deck.deal(o.Together)
		b.prey = b.preys()[prey.IntN(len(b.preys()))]
		if _, ok := b.registry.runOf(b.prey, ""); !ok { // between two ticks
			b.prey = b.standing()[0]
		}
		b.round(turn)
		if !b.await(settling*b.Store.TTL, b.runs) {
			b.say("nobody runs %s", strings.Join(b.standing(), ", or nobody "))
		}
		time.Sleep(turn.rest)
	}
	b.settle()
	log, err := end()
	log.Asked = o.Length
	return log, err
}

// rest is how long a bed needs at its end for what has begun, and to come to rest.
func (b *Bed) rest(length time.Duration) time.Duration {
	return min(length/2, 4*b.Store.TTL+2*rerunEvery)
}

// Once lets one fault happen to the host that runs the first job that is always wanted, or to the store, for longer than any lease lasts, and
// watches on for a while when it is mended.
func (b *Bed) Once(f Fault) (Log, error) {
	b.Lasting, b.prey = true, b.standing()[0]
	end := b.begin()
	defer func() { _, _ = end() }()
	for tries := 0; tries < 5 && len(b.blows) == 0; tries++ { // a run may have ended the moment before
		b.await(settling*b.Store.TTL, b.runs)
		b.round(turn{first: f, atHolder: true, length: max(f.AtLeast, 5*b.Store.TTL/2, b.Way.Longest+b.Store.TTL)})
	}
	time.Sleep(max(2*b.Store.TTL, b.Way.Longest)) // how long there are two, if there are
	return end()
}

// begin lets the hosts work and waits for the first runs. What it returns ends all of it and tells what happened.
func (b *Bed) begin() (end func() (Log, error)) {
	ctx, stop := context.WithCancel(context.Background())
	wait := b.work(ctx)
	end = sync.OnceValues(func() (Log, error) {
		ended := boottime.Now()
		stop()
		still := make(chan struct{})
		go func() { wait(); close(still) }()
		for {
			b.die() // also what was just being started
			select {
			case <-still:
				return b.log(ended)
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	if !b.await(firstRun*b.Store.TTL, b.runs) {
		b.T.Error("nothing began")
	}
	return end
}

// possible are those of the hosts' faults that can happen to this bed, and the faults of its store.
func (b *Bed) possible(ofHosts []Fault) []Fault {
	return slices.DeleteFunc(slices.Concat(ofHosts, b.Running.Faults), func(f Fault) bool {
		return f.Network && b.Running.Dir != "" || !b.Way.Ticks && !f.Peers
	})
}

// settle waits until each job has begun and ended a run after all is mended, so that what was lost is made up for.
func (b *Bed) settle() {
	now := boottime.Now()
	waits := func(job string) bool { return b.registry.last(job).First <= now }
	b.await(settling*b.Store.TTL, func() bool { return !slices.ContainsFunc(b.ticking(), waits) })
	b.await(settling*b.Store.TTL, b.runs)
	time.Sleep(2 * rerunEvery) // the last tick that was begun comes to its end
}

// die ends all processes of all hosts at once.
func (b *Bed) die() {
	for _, host := range Hosts {
		b.Net.Dies(host)
	}
}

// trouble is a fault that goes on.
type trouble struct {
	blow *Blow
	mend func() error
}

// round lets one fault happen, or two, and mends them.
func (b *Bed) round(t turn) {
	host := Hosts[t.host]
	// Mostly where something runs, because there is most to go wrong.
	if run, ok := b.registry.runOf(b.prey, ""); ok && t.atHolder {
		host = run.Host
	}
	troubles := []*trouble{b.strike(t.first, host, !t.both)}
	if t.both {
		time.Sleep(t.between)
		other := Hosts[t.other]
		if other == host {
			other = Hosts[t.host]
		}
		troubles = append(troubles, b.strike(t.second, other, false))
	}
	went := t.length
	switch {
	case t.both:
		time.Sleep(t.length - t.between)
	case t.first.Once:
		went = 0
	default:
		time.Sleep(t.length)
	}
	for _, trouble := range troubles {
		b.mend(trouble)
	}
	if t.first.Kills {
		// A run that goes on although it must not is seen only if somebody looks for as long as it may live.
		time.Sleep(max(0, b.Store.TTL-went))
	}
}

// strike lets a fault happen; nil: it could not.
func (b *Bed) strike(f Fault, host string, alone bool) *trouble {
	v := b.victim(host)
	blow := &Blow{Fault: f.Name, Excused: f.Excused, Kills: f.Kills, Where: host, Alone: alone, Struck: boottime.Now()}
	blow.OnServer, blow.Whole, blow.OneRun, blow.Forgets, blow.Back = f.OnServer, f.Whole, f.OneRun, f.Forgets, f.Back
	if f.OnServer {
		blow.Where = "server"
	}
	blow.Wrapper = v.Wrapper
	if v.Run != nil {
		blow.Token, blow.Run, v.Lease = v.Run.Token, v.Run.Run, v.Run.Lease()
	} else if run, ok := b.registry.runOf(b.prey, ""); ok && f.OnServer {
		blow.Token, blow.Run, blow.Wrapper, v.Lease = run.Token, run.Run, b.pid(run.Wrapper), run.Lease()
	}
	mend, err := f.Strike(b, v)
	if err != nil {
		b.say("%s: %s did not happen: %v", blow.Where, f.Name, err)
		return nil
	}
	b.say("%s: %s (the run of %s there: %q)", blow.Where, f.Name, b.prey, blow.Run)
	blow.Landed = boottime.Now()
	b.blows = append(b.blows, blow)
	return &trouble{blow, mend}
}

// mend ends a trouble. A store that does not come back ends the test: nothing would be learnt from it any more.
func (b *Bed) mend(t *trouble) {
	if t == nil || t.mend == nil {
		return
	}
	t.blow.Mending = boottime.Now()
	if err := t.mend(); err != nil {
		b.T.Fatalf("%s of %s cannot be mended: %v", t.blow.Fault, t.blow.Where, err)
	}
	t.blow.Mended = boottime.Now()
	b.say("%s: mended", t.blow.Where)
}
