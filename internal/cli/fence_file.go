package cli

import (
	"context"
	"io"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/internal/duration"
)

func fenceFileCommand() *command {
	return &command{
		name: "fence file", args: "PATH [-- COMMAND [ARG…]]", brief: "replace a file, unless the run was overtaken",
		about: `Replaces PATH in one step with stdin, or with what COMMAND prints. If a run with a higher token has raised the fence
of PATH, nothing is written: exit code 79. First the fence is raised; then the content is collected in a temporary
file beside PATH; then the token is compared once more, and that file takes the place of PATH, under one lock.
Whoever reads PATH finds the old content or the new one, whole, also after a kill or a power cut.

Where COMMAND fails, or a signal comes in time, PATH is left as it was. After a signal that comes too late a line says
that PATH was replaced. The exit code is COMMAND's: where that may be 79, only the line on stderr tells a run that was
overtaken. 69 is for what may pass: a full disk, a lock that is held. What COMMAND leaves behind with its stdout is
waited for. stdin and stderr of COMMAND are those of leaderrun. TERM, INT, HUP and QUIT are passed on to it, TERM and
HUP followed by CONT; a second TERM or INT kills it.

What it cannot see: "producer | leaderrun fence file PATH" makes PATH of half an output if producer fails in the
middle, and producer may have begun to read before the fence was raised. With COMMAND neither happens. Where the whole
run is stopped, producer may be gone first: for 50 ms after the end of the content the signal is waited for, and on a
host that needs longer half an output counts. A stdin that is /dev/null or closed is refused: exit code 64. A script
that reads first and writes at its end begins with --raise. What writes to PATH by other means is not refused.

Beside PATH it keeps .NAME.fence, the highest token seen, and .NAME.fence.lock, where NAME is the name of the file or
the one of --resource, which files of one directory may share. Neither may be removed while a run of the job
lives. A symbolic link stands for the file that it leads to. PATH keeps its permission bits, owner and group; not
access control lists, extended attributes or hard links. Only runs on this host exclude each other: network file
systems are refused, and so are others where a file may be torn (FAT, ext2, FUSE, unknown ones).`,
		examples: []exampleLine{
			{"in a job: the list is that of the last run, whole", "leaderrun run report sh -c 'leaderrun fence file list.txt -- report --full'"},
			{"a script that reads what it changes", "leaderrun run report sh -c 'leaderrun fence file --raise sum && report sum >new && leaderrun fence file sum <new'"},
		},
		options: fenceFileOptions(), run: runFenceFile, rest: true,
	}
}

func fenceFileOptions() []option {
	return append([]option{{
		name: "lock-wait", value: "D", def: filefence.DefaultLockWait.String(), check: by(duration.NotNegative), group: fenceGroup, example: "1m",
		help: "how long to wait while another process compares a token: one that\nwas stopped there keeps the others waiting",
	}}, fenceOptions()...)
}

// fileWrite is what `fence file` is asked to do.
type fileWrite struct {
	path    string
	options filefence.Options
	content *content // nil: the fence is only raised
}

func runFenceFile(c *call) (ExitStatus, error) {
	r, err := c.fencedRun()
	if err != nil {
		return ExitStatus{}, err
	}
	p, err := c.planFileWrite()
	if err != nil {
		return ExitStatus{}, err
	}
	ctx, cancel := c.context()
	defer cancel()
	return ExitStatus{}, c.writeFile(ctx, p, r)
}

func (c *call) planFileWrite() (*fileWrite, error) {
	p, raises := &fileWrite{}, c.settings.on("raise")
	p.options.Resource = read(c.settings, "resource", parseText, "")
	p.options.LockWait = read(c.settings, "lock-wait", duration.NotNegative, filefence.DefaultLockWait)
	if p.options.LockWait == 0 {
		p.options.LockWait = -1 // what the option means by 0
	}
	hint := "usage: " + c.cmd.usageLine()
	switch {
	case c.settings.err != nil:
		return nil, c.settings.err
	case len(c.args) == 0 || c.args[0] == "--":
		return nil, usage("PATH is missing", "", hint)
	case c.args[0] == "":
		return nil, usage("PATH", "it is empty", hint)
	case raises && len(c.args) > 1:
		return nil, usage("--raise", "it writes nothing, and takes PATH alone", hint)
	}
	p.path = c.args[0]
	if raises {
		return p, nil
	}
	var err error
	p.content, err = c.newContent(c.args[1:])
	return p, err
}

func (c *call) writeFile(ctx context.Context, p *fileWrite, r fence.Run) error {
	f, err := filefence.Open(p.path, p.options)
	if err != nil {
		return fenceFailed(p.path, err)
	}
	w, err := f.Raise(ctx, r)
	if err == nil && p.content != nil {
		err = w.Replace(ctx, func(to io.Writer) error { return p.content.writeTo(ctx, to) })
		if err == nil {
			c.written = p.path + " was replaced"
		}
	}
	if told, ok := unchanged(p.path, err); ok {
		return told
	}
	if err != nil {
		return fenceFailed(p.path, err)
	}
	return nil
}
