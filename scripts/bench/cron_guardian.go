package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// guardedCommands run beside each other when the memory of their guardians is measured.
const guardedCommands = 10

// guardians measures what a guardian takes beside a command of the daemon that sleeps.
func (b *cronBench) guardians(r *report) error {
	at := slices.IndexFunc(b.ways, func(w cronWay) bool { return w.name != cronPeer && w.daemons == 1 })
	if at < 0 {
		return nil
	}
	crontab, err := b.crontab(guardedCommands, func(int) string { return "@every 10s exec sleep 1000" })
	if err != nil {
		return err
	}
	d, err := b.start(b.ways[at], crontab)
	// Guardians end the command of a daemon that was killed.
	defer func() { _ = d.stop(syscall.SIGKILL) }()
	if err != nil {
		return err
	}
	var tree []int
	err = await(func() error {
		tree = family(d.cmds[0].Process.Pid)
		asleep := 0
		for _, pid := range tree {
			if sleeps(pid) {
				asleep++
			}
		}
		if asleep < guardedCommands {
			return fmt.Errorf("%d of %d commands run", asleep, guardedCommands)
		}
		return nil
	})
	if err != nil {
		return err
	}
	time.Sleep(settleSpan)
	var memory []float64
	for _, pid := range tree {
		if nameOf(pid) != "lr-guard" {
			continue
		}
		mb, err := pss(pid)
		if err != nil {
			return err
		}
		memory = append(memory, mb)
	}
	w := way{name: b.ways[at].name}
	r.add(guardianMemory, 0, "MB", w, memory...)
	return nil
}
