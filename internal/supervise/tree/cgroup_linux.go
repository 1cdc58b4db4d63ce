package tree

import "syscall"

// Cgroup is a cgroup v2 leaf that holds one run (cgroups(7)). A nil *Cgroup is one that could not be
// made: killing it does nothing, and nothing is in it.
type Cgroup struct {
	path string
	dir  int // descriptor of the directory, for clone3(2)
}

// leafMode keeps others from opening the directory: whoever can open it can lock it, so that we cannot hold it, or that it seems held
// for ever. A command of another user's may still read the files in there by name, as runtimes do that look for their limits.
const leafMode = 0o711

// MakeCgroup makes the leaf and holds it until it is closed.
func MakeCgroup(path string) (*Cgroup, error) {
	if err := syscall.Mkdir(path, leafMode); err != nil {
		return nil, err
	}
	dir, err := Hold(path)
	if err == syscall.ENOENT { // somebody took it for abandoned, and will see the next one held
		if err = syscall.Mkdir(path, leafMode); err == nil {
			dir, err = Hold(path)
		}
	}
	if err != nil {
		_ = syscall.Rmdir(path)
		return nil, err
	}
	return &Cgroup{path: path, dir: dir}, nil
}

// RemoveAbandonedCgroups removes what is empty of the leaves in a cgroup that runs of ours have left behind.
func RemoveAbandonedCgroups(home string) {
	RemoveAbandoned(home, func(path string) {
		if c := OthersCgroup(path); !c.Populated() {
			_ = c.Remove()
		}
	})
}

// OthersCgroup is a leaf that another process was to make; "": nobody was to make one.
func OthersCgroup(path string) *Cgroup {
	if path == "" {
		return nil
	}
	return &Cgroup{path: path, dir: -1}
}

// Descriptor is the directory's, for SysProcAttr.CgroupFD; -1 without a cgroup.
func (c *Cgroup) Descriptor() int {
	if c == nil {
		return -1
	}
	return c.dir
}

// Kill sends SIGKILL to everything in the cgroup and below it. cgroup.kill (Linux 5.14) also reaches
// what is being forked at that moment, but not a process whose main thread has ended: hence both.
func (c *Cgroup) Kill() {
	if c == nil {
		return
	}
	_ = writeFile(c.path+"/cgroup.kill", "1")
	for _, pid := range c.Processes() {
		c.Signal(pid, syscall.SIGKILL)
	}
}

// Signal sends a signal to a process that was listed, if it is in the cgroup, and to nobody else.
func (c *Cgroup) Signal(pid int, sig syscall.Signal) {
	if c != nil {
		signalIf(pid, sig, func() bool { return c.has(pid) })
	}
}

// has tells whether a process is in the cgroup or below it, or may be: one that is there and cannot be read.
func (c *Cgroup) has(pid int) bool {
	text, err := readFile(string(append(appendNumber([]byte("/proc/"), pid), "/cgroup"...)))
	if err != nil {
		return err != syscall.ENOENT && err != syscall.ESRCH
	}
	name := len(c.path)
	for name > 0 && c.path[name-1] != '/' {
		name--
	}
	return contains(text, "/"+c.path[name:]+"\n") || contains(text, "/"+c.path[name:]+"/")
}

// Populated tells whether a process is, or may be, in the cgroup or below it: one that is there and cannot be read is not taken
// for empty.
func (c *Cgroup) Populated() bool {
	if c == nil {
		return false
	}
	events, err := readFile(c.path + "/cgroup.events")
	return err != syscall.ENOENT && (err != nil || !contains(events, "populated 0"))
}

// Processes lists what is in the cgroup and below it.
func (c *Cgroup) Processes() []int {
	if c == nil {
		return nil
	}
	var pids []int
	below(c.path, func(dir string) {
		for rest := ReadFile(dir + "/cgroup.procs"); ; {
			n, after, ok := number(rest)
			if !ok {
				break
			}
			if rest = after; n > 0 { // 0 is a process of another pid namespace
				pids = append(pids, n)
			}
		}
	})
	return pids
}

// tracedOnly tells whether all that is in the cgroup or below it runs no more code, and is traced. What is listed and cannot be read (proc
// may be mounted with hidepid, and the process be another user's) may be alive.
func (c *Cgroup) tracedOnly() bool {
	if !c.Populated() {
		return true
	}
	var r reader
	pids := c.Processes()
	for _, pid := range pids {
		if p, ok := r.stat(pid); !ok || r.keptBy(p) == 0 {
			return false
		}
	}
	return len(pids) > 0
}

// Remove removes the cgroup and what the run made below it. It fails while a process is in there.
func (c *Cgroup) Remove() error {
	if c == nil {
		return nil
	}
	err := syscall.Rmdir(c.path)
	if err == syscall.EBUSY {
		below(c.path, func(dir string) { err = syscall.Rmdir(dir) })
	}
	if err == nil || err == syscall.ENOENT {
		c.Close()
		return nil
	}
	return err
}

// Close releases the descriptor and leaves the cgroup.
func (c *Cgroup) Close() {
	if c != nil && c.dir >= 0 {
		_ = syscall.Close(c.dir)
		c.dir = -1
	}
}

// below calls visit for every directory under dir, and then for dir.
func below(dir string, visit func(string)) {
	var st syscall.Stat_t
	list, _ := Names(dir)
	for _, name := range list {
		path := dir + "/" + name
		if syscall.Lstat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			below(path, visit)
		}
	}
	visit(dir)
}
