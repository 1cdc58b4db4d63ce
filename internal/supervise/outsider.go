package supervise

// Outsider is a process of this machine that this one did not start: a run that an operator ends. It is held by the
// process and not by its number: a number that is used again is never hit.
type Outsider struct {
	pid int
	fd  int // a pidfd; -1: none
}

// OpenOutsider takes hold of a process. Whoever named the number must be asked again afterwards whether it is still
// that process's. An error is an errno: ESRCH where there is none, ENOSYS where the system has no pidfd.
func OpenOutsider(pid int) (*Outsider, error) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return nil, err
	}
	return &Outsider{pid: pid, fd: fd}, nil
}

// PID is the number of the process.
func (o *Outsider) PID() int { return o.pid }
