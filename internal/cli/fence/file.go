package fence

import (
	"context"
	"io"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/filefence"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
)

func fenceFileCommand() *cli.Command {
	return &cli.Command{
		Name: "fence file", Args: "PATH [-- COMMAND [ARG…]]", Brief: "replace a file, unless the run was overtaken",
		About: `Replaces PATH in one step with stdin, or with what COMMAND prints. If a run with a higher token has raised the fence
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
		Examples: []cli.ExampleLine{
			{Does: "in a job: the list is that of the last run, whole", Line: "leaderrun run report sh -c 'leaderrun fence file list.txt -- report --full'"},
			{Does: "a script that reads what it changes", Line: "leaderrun run report sh -c 'leaderrun fence file --raise sum && report sum >new && leaderrun fence file sum <new'"},
		},
		Options: fenceFileOptions(), Run: runFenceFile, Rest: true,
	}
}

func fenceFileOptions() []cli.Option {
	return append([]cli.Option{{
		Name: "lock-wait", Value: "D", Def: filefence.DefaultLockWait.String(), Check: cli.By(duration.NotNegative), Group: fenceGroup, Example: "1m",
		Help: "how long to wait while another process compares a token: one that\nwas stopped there keeps the others waiting",
	}}, fenceOptions()...)
}

// fileWrite is what `fence file` is asked to do.
type fileWrite struct {
	path    string
	options filefence.Options
	content *content // nil: the fence is only raised
}

func runFenceFile(c *cli.Call) (cli.ExitStatus, error) {
	r, err := fencedRun(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	p, err := planFileWrite(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	ctx, cancel := c.SignalContext()
	defer cancel()
	return cli.ExitStatus{}, writeFile(ctx, c, p, r)
}

func planFileWrite(c *cli.Call) (*fileWrite, error) {
	p, raises := &fileWrite{}, c.Settings.On("raise")
	p.options.Resource = cli.Read(c.Settings, "resource", cli.ParseText, "")
	p.options.LockWait = cli.Read(c.Settings, "lock-wait", duration.NotNegative, filefence.DefaultLockWait)
	if p.options.LockWait == 0 {
		p.options.LockWait = -1 // what the option means by 0
	}
	hint := "usage: " + c.Cmd.UsageLine()
	switch {
	case c.Settings.Err != nil:
		return nil, c.Settings.Err
	case len(c.Args) == 0 || c.Args[0] == "--":
		return nil, cli.Usage("PATH is missing", "", hint)
	case c.Args[0] == "":
		return nil, cli.Usage("PATH", "it is empty", hint)
	case raises && len(c.Args) > 1:
		return nil, cli.Usage("--raise", "it writes nothing, and takes PATH alone", hint)
	}
	p.path = c.Args[0]
	if raises {
		return p, nil
	}
	var err error
	p.content, err = newContent(c, c.Args[1:])
	return p, err
}

func writeFile(ctx context.Context, c *cli.Call, p *fileWrite, r fence.Run) error {
	f, err := filefence.Open(p.path, p.options)
	if err != nil {
		return fenceFailed(p.path, err)
	}
	w, err := f.Raise(ctx, r)
	if err == nil && p.content != nil {
		err = w.Replace(ctx, func(to io.Writer) error { return p.content.writeTo(ctx, to) })
		if err == nil {
			c.Written = p.path + " was replaced"
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
