package bed

import (
	"errors"
	"os"
	"syscall"
)

const commandKilled = "command killed"

// processFaults happen to the processes of a run, or of a wrapper that stands by for one.
var processFaults = []Fault{
	{Name: "wrapper stopped", Kills: true, Peers: true, Strike: signals(stop(theWrapper))},
	{Name: "wrapper killed", Kills: true, Peers: true, Once: true, Strike: signals(kill(theWrapper))},
	{Name: "wrapper asked to end", Peers: true, Once: true, Strike: signals(signal{theWrapper, syscall.SIGTERM})},
	{Name: "guardian stopped", OneRun: true, Kills: true, Strike: signals(stop(theGuardian))},
	{Name: "guardian killed", OneRun: true, Kills: true, Once: true, Strike: signals(kill(theGuardian))},
	{Name: "command stopped", OneRun: true, Peers: true, Strike: signals(stop(theCommand))},
	{Name: commandKilled, OneRun: true, Peers: true, Once: true, Strike: signals(kill(theCommand))},

	// Nobody is left to end the run.
	{Name: "wrapper and guardian stopped", OneRun: true, Excused: true, Strike: signals(stop(theWrapper), stop(theGuardian))},
	{Name: "wrapper stopped and guardian killed", OneRun: true, Excused: true, Strike: signals(stop(theWrapper), kill(theGuardian))},
	{
		// They are stopped first, so that neither can act on the other's end.
		Name: "wrapper and guardian killed", OneRun: true, Excused: true,
		Strike: orphaned(signals(stop(theWrapper), stop(theGuardian), kill(theWrapper), kill(theGuardian))),
	},

	{
		Name: "no file to open", Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) {
			pid, comm := theWrapper(b, v)
			return b.Net.NoFiles(v.Host, pid, comm)
		},
	},
}

// member is a process of a victim, and its name; "": any.
type member func(b *Bed, v Victim) (pid int, comm string)

func theWrapper(b *Bed, v Victim) (pid int, comm string) {
	if b.Way.Ticks {
		comm = "leaderrun"
	}
	return v.Wrapper, comm
}

func theGuardian(_ *Bed, v Victim) (pid int, comm string) { return v.Guardian, "lr-guard" }

func theCommand(_ *Bed, v Victim) (pid int, comm string) {
	if v.Run == nil {
		return 0, ""
	}
	return v.Run.PID, ""
}

type signal struct {
	to  member
	sig syscall.Signal
}

func stop(to member) signal { return signal{to, syscall.SIGSTOP} }
func kill(to member) signal { return signal{to, syscall.SIGKILL} }

// signals sends some signals, in their order, or none if one of the processes is not there. Whom it left stopped goes on
// when it is mended.
func signals(all ...signal) func(*Bed, Victim) (func() error, error) {
	return func(b *Bed, v Victim) (func() error, error) {
		var to []*os.Process
		for _, s := range all {
			pid, comm := s.to(b, v)
			p, err := b.Net.Process(v.Host, pid, comm)
			if err != nil {
				return nil, err
			}
			to = append(to, p)
		}
		// From here on it has happened: that one of them ends meanwhile changes nothing.
		stopped := map[int]*os.Process{}
		for i, p := range to {
			if err := send(p, all[i].sig); err != nil {
				return nil, err
			}
			switch all[i].sig {
			case syscall.SIGSTOP:
				stopped[p.Pid] = p
			case syscall.SIGKILL:
				delete(stopped, p.Pid)
			}
		}
		if len(stopped) == 0 {
			return nil, nil
		}
		return func() error {
			for _, p := range stopped {
				if err := send(p, syscall.SIGCONT); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
}

// orphaned is a blow after which nobody ends the run but somebody who is called for it.
func orphaned(strike func(*Bed, Victim) (func() error, error)) func(*Bed, Victim) (func() error, error) {
	return func(b *Bed, v Victim) (func() error, error) {
		if _, err := strike(b, v); err != nil {
			return nil, err
		}
		return func() error {
			for _, s := range b.registry.processes(func(s Span) bool { return s.Host == v.Host && b.pid(s.Wrapper) == v.Wrapper }) {
				p, err := b.Net.Process(v.Host, s.PID, "")
				if err != nil {
					continue // it has ended
				}
				if err := send(p, syscall.SIGKILL); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
}

// send sends a signal to a process, which may have ended.
func send(p *os.Process, sig syscall.Signal) error {
	if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
