package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/redisconn"
)

//go:embed doctor.lua
var doctorText string

// nobodysJob cannot be the name of a job: a name has no zero byte.
const nobodysJob = "\x00"

// jobAt returns the name of nobody's job whose keys are on one node of a cluster.
func (p *connPool) jobAt(addr string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range slotCount {
		job := nobodysJob + strconv.Itoa(i)
		if p.slots.at(slotOf(p.cfg.key(job, ""))) == addr {
			return job
		}
	}
	return nobodysJob // of a node with hardly any slot
}

// sentinels asks each Sentinel of the URL.
func (x *examination) sentinels(ctx context.Context) {
	const what = "sentinel"
	c := x.s.cfg
	type answer struct {
		said map[string]string
		err  error
	}
	answers := checkup.AskAll(ctx, c.Addrs, func(ctx context.Context, addr string) (a answer) {
		a.said, a.err = x.sentinel(ctx, addr)
		return a
	})
	masters, known, quorum := map[string][]string{}, 0, ""
	answered := 0
	for i, addr := range c.Addrs {
		said, err := answers[i].said, answers[i].err
		if err != nil {
			x.Warn(what, unreachable, "%s: %v", addr, err)
			continue
		}
		answered++
		master := said["ip"] + ":" + said["port"]
		masters[master] = append(masters[master], addr)
		others, _ := strconv.Atoi(said["num-other-sentinels"])
		known, quorum = max(known, others+1), said["quorum"]
	}
	switch {
	case 2*answered <= len(c.Addrs):
		x.Bad(what, unreachable, "%d of %d Sentinels answer", answered, len(c.Addrs))
	case len(masters) > 1:
		var says []string
		for master, by := range masters {
			says = append(says, strings.Join(by, " and ")+" say "+master)
		}
		slices.Sort(says)
		x.Warn(what, "look whether the network is split, or a failover is on", "they do not agree on the master: %s", strings.Join(says, ", "))
	case known > len(c.Addrs):
		x.Warn(what, "list them all in the URL: leaderrun believes most of them", "the URL names %d of %d Sentinels", len(c.Addrs), known)
	case known < 3:
		x.Warn(what, "run three, on three hosts", "%d in all: a failover needs most of them", known)
	default:
		x.Fine(what, "%d of %d answer and agree; quorum %s", answered, len(c.Addrs), quorum)
	}
}

// sentinel returns what a Sentinel knows about the master.
func (x *examination) sentinel(ctx context.Context, addr string) (map[string]string, error) {
	c := goredis.NewClient(redisconn.Guide(&x.s.cfg.Target, addr, readTimeout))
	defer func() { _ = c.Close() }()
	words, err := c.Do(ctx, "sentinel", "master", x.s.cfg.Master).StringSlice()
	if err != nil {
		return nil, classify(x.s.cfg, err)
	}
	said := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		said[words[i]] = words[i+1]
	}
	return said, nil
}

// mark looks at what the store remembers of itself: who wrote it, and for how long nobody is granted yet.
func (x *examination) mark(ctx context.Context, c *goredis.Client, f facts) {
	const what = "quarantine"
	key := x.s.cfg.keys(nobodysJob)[2]
	mark, err := c.HGetAll(ctx, key).Result()
	if err != nil {
		x.Failed(what, prefixHint, classify(x.s.cfg, err))
		return
	}
	seen, _ := strconv.Atoi(mark["replicas"])
	x.replicas(ctx, c, f, seen)
	longest, _ := strconv.ParseInt(mark["longest"], 10, 64)
	x.LongestTTL(x.s.cfg.longest, longest)
	var wait time.Duration // for a job of which nothing is known
	now, err := x.s.look(ctx, nobodysJob)
	if err == nil {
		wait = now.quarantine
	}
	switch {
	case err != nil:
		x.Failed(what, "look at the log of the server", classify(x.s.cfg, err))
	case wait > 0:
		x.Warn(what, "it passes by itself: runs wait for it", "for %v more nobody is granted who does not run: the server is new, restarted, emptied or promoted",
			wait.Round(100*time.Millisecond))
	case len(mark) == 0:
		x.Fine(what, "none; the first claim writes the mark %s", key)
	default:
		x.Fine(what, "none: the mark is that of this server")
	}
}

// replicas says whether as many can acknowledge as must. seen is how many there ever were.
func (x *examination) replicas(ctx context.Context, c *goredis.Client, f facts, seen int) {
	const what = "replicas"
	online, err := c.Eval(ctx, commonText+"return online()", x.s.cfg.keys(x.job), "").Int()
	if err != nil {
		x.Failed(what, prefixHint, classify(x.s.cfg, err))
		return
	}
	need, should := x.s.cfg.required(max(seen, online)), x.s.cfg.safe(max(seen, online))
	if online < need {
		x.Bad(what, "bring them back, or say how many must acknowledge: ?replicas=N",
			"%d of %d that must acknowledge are connected: nothing is granted", online, need)
		return
	}
	if need > 0 {
		acked, err := c.Do(ctx, "wait", need, waitLimit(ctx)/2).Int()
		if err == nil && acked < need {
			x.Bad(what, "look at the link between the servers", "%d of %d acknowledge: nothing is granted", acked, need)
			return
		}
	}
	_, guarded := f["min_slaves_good_slaves"]
	switch {
	case need < should:
		x.Warn(what, "leave ?replicas= out", "%d of %d must acknowledge (?replicas=%d): after a failover two runs may overlap", need, should, x.s.cfg.replicas)
	case online > 0 && !guarded:
		x.Warn(what, "min-replicas-to-write 1 and min-replicas-max-lag 10", "%d, all of which acknowledge, but a master that is cut off from them goes on taking writes", online)
	case online > 0:
		x.Fine(what, "%d, of which %d must acknowledge", online, need)
	default:
		x.Fine(what, "none, and none must acknowledge")
	}
}

// rights tries every command that leaderrun uses, and says whether those are allowed that a run needs.
func (x *examination) rights(ctx context.Context, c *goredis.Client) bool {
	var lack lacking
	for _, t := range x.trials(c) {
		lack.note(x.s.cfg, t.command, t.try(ctx))
	}
	lack.note(x.s.cfg, "eval", x.script(ctx, c, &lack))
	switch needed, handy := lack.split(); {
	case lack.other != nil:
		x.Failed(checkup.Rights, "look at the log of the server", lack.other)
		return false
	case len(needed) > 0:
		x.Bad(checkup.Rights, aclHint, "this user lacks %s", strings.Join(needed, " "))
		return false
	case len(handy) > 0:
		x.Warn(checkup.Rights, aclHint, "this user lacks %s: standbys take over up to a TTL later without +publish and +subscribe, and status without names needs +scan",
			strings.Join(handy, " "))
	default:
		x.Fine(checkup.Rights, "all that leaderrun needs")
	}
	return true
}

// trial is one command that is tried outside of scripts.
type trial struct {
	command string
	try     func(ctx context.Context) error
}

func (x *examination) trials(c *goredis.Client) []trial {
	key := x.s.cfg.key(x.job, "doctor")
	do := func(words ...any) func(context.Context) error {
		return func(ctx context.Context) error { return c.Do(ctx, words...).Err() }
	}
	pattern := globEscape(escape(x.s.cfg.prefix)) + ":{*}:record"
	return []trial{
		{"ping", do("ping")},
		{"time", do("time")},
		{"wait", do("wait", 0, 1)},
		{"evalsha", do("evalsha", strings.Repeat("0", 40), 1, key)},
		{"scan", do("scan", 0, "match", pattern, "count", 1)},
		{"subscribe", func(ctx context.Context) error {
			sub := c.Subscribe(ctx)
			defer func() { _ = sub.Close() }()
			if err := sub.Subscribe(ctx, key); err != nil {
				return err
			}
			_, err := receive(ctx, sub, serverLimit)
			return err
		}},
	}
}

// script tries the commands of scripts, and returns why none can run.
func (x *examination) script(ctx context.Context, c *goredis.Client, lack *lacking) error {
	keys := []string{x.s.cfg.key(x.job, "string"), x.s.cfg.key(x.job, "hash")}
	refused, err := c.Eval(ctx, doctorText, keys).StringSlice()
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(refused); i += 2 {
		lack.note(x.s.cfg, refused[i], errors.New(refused[i+1]))
	}
	return nil
}

// lacking is what a user may not do, as words of an ACL.
type lacking struct {
	words []string
	other error // the first error that is not for want of rights
}

// note takes the outcome of one command.
func (l *lacking) note(c *config, command string, err error) {
	if err == nil || goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	p, ok := errors.AsType[*backends.PermanentError](classify(c, err))
	channel := strings.Contains(err.Error(), " channel")
	if !channel && (!ok || p.Kind != backends.Credentials) {
		if l.other == nil {
			l.other = fmt.Errorf("%s: %w", command, classify(c, err))
		}
		return
	}
	word := "+" + command
	switch pattern := escape(c.prefix) + ":*"; {
	case channel:
		word = "&" + pattern
	case strings.Contains(err.Error(), " key"):
		word = "~" + pattern
	}
	if !slices.Contains(l.words, word) {
		l.words = append(l.words, word)
	}
}

// split parts what a run needs from what makes it quicker.
func (l *lacking) split() (needed, handy []string) {
	for _, word := range l.words {
		if word == "+scan" || word == "+publish" || word == "+subscribe" || strings.HasPrefix(word, "&") {
			handy = append(handy, word)
		} else {
			needed = append(needed, word)
		}
	}
	return needed, handy
}
