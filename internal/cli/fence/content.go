package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
)

// content is what a run writes to a resource: what comes by stdin, or what COMMAND prints.
type content struct {
	call    *cli.Call
	command *supervise.Command // nil: stdin
}

// newContent takes the arguments behind what is to be replaced: none, or "--" and COMMAND. COMMAND is looked up now, so that
// a host that lacks it touches nothing.
func newContent(c *cli.Call, rest []string) (*content, error) {
	t := &content{call: c}
	if len(rest) == 0 {
		if isNull(c.Stdin) {
			return nil, cli.Usage("stdin is /dev/null", "there is nothing to write",
				fmt.Sprintf("`-- true` makes %s empty, `--raise` only raises the fence", strings.Fields(c.Cmd.Args)[0]))
		}
		return t, nil
	}
	first := strings.Fields(c.Cmd.Args)[0]
	hint := "usage: " + c.Cmd.UsageLine()
	switch {
	case rest[0] == "":
		return nil, cli.Usage(c.Cmd.Name, fmt.Sprintf("an empty word stands after %s", first), hint)
	case rest[0] != "--" && strings.HasPrefix(rest[0], "-"):
		return nil, cli.Usage(c.Cmd.Name, fmt.Sprintf("%q stands after %s: options go before", rest[0], first), hint)
	case rest[0] != "--":
		return nil, cli.Usage(c.Cmd.Name, fmt.Sprintf("%q stands after %s: COMMAND goes behind --", rest[0], first), hint)
	case len(rest) == 1:
		return nil, cli.Usage("COMMAND is missing", "", hint)
	}
	argv, err := launch.CommandOf(rest[1:], false)
	if err != nil {
		return nil, err
	}
	path, code, err := supervise.LookPath(argv[0])
	if err != nil {
		return nil, &cli.Fault{Code: code, What: argv[0], Why: cli.Reason(err), Err: err, Hint: launch.LookHint("", argv, code)}
	}
	t.command = &supervise.Command{Path: path, Argv: argv}
	return t, nil
}

// isNull says whether a file is /dev/null, which cron and service managers give their jobs as stdin, and Go's runtime opens where
// there is none: nobody has meant to write nothing then.
func isNull(f *os.File) bool {
	have, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	if err != nil || nullErr != nil { // a read will tell
		return false
	}
	mine, isKnown := have.Sys().(*syscall.Stat_t)
	its, isKnownToo := null.Sys().(*syscall.Stat_t)
	// By its number: in a container it may be that of another file system.
	return isKnown && isKnownToo && have.Mode()&os.ModeCharDevice != 0 && mine.Rdev == its.Rdev
}

// writeTo writes all of it. After an error nothing of it may be used. What is not an error of w is a *fault, or the end of
// the context.
func (t *content) writeTo(ctx context.Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if t.command == nil {
		err = t.writeInput(ctx, w)
	} else {
		err = t.writeOutput(w)
	}
	if err == nil {
		listen(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// listen waits for a signal that was sent to our whole group, and of which producer or COMMAND has died, or ended as if it had
// finished: their end is often seen before the signal.
func listen(ctx context.Context) {
	const earshot = 50 * time.Millisecond
	select {
	case <-ctx.Done():
	case <-time.After(earshot):
	}
}

// writeInput writes what comes by stdin. A read of it cannot be interrupted: it is left behind.
func (t *content) writeInput(ctx context.Context, w io.Writer) error {
	out, in := io.Pipe()
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	defer stop()
	panics.Go(func() {
		_, err := io.Copy(in, t.call.Stdin)
		if err != nil {
			err = &cli.Fault{Code: cli.CodeInternal, What: "stdin", Why: cli.Reason(err), Err: err}
		}
		_ = in.CloseWithError(err)
	})
	_, err := io.Copy(w, out)
	return err
}

// writeOutput writes what COMMAND prints, and passes signals on to it.
func (t *content) writeOutput(w io.Writer) error {
	status, err := supervise.RunPiped(*t.command, w, t.call.Passed)
	name := t.command.Argv[0]
	if failed, ok := errors.AsType[*supervise.ExecError](err); ok {
		return &cli.Fault{Code: failed.ExitCode(), What: name, Why: failed.Errno.Error(), Err: err}
	}
	switch {
	case err != nil:
		return err
	case !status.Known:
		return &cli.Fault{Code: cli.CodeInternal, What: name, Why: "nobody saw how it ended"}
	case status.Signal != 0:
		return &cli.Fault{Code: status.ExitCode(), What: name, Why: fmt.Sprintf("it was ended by signal %d (%v)", int(status.Signal), status.Signal)}
	case status.Code != 0:
		return &cli.Fault{Code: status.Code, What: name, Why: fmt.Sprintf("it ended with code %d", status.Code)}
	}
	return nil
}

// unchanged says of an error of the content that the resource is as it was. Others say so by themselves.
func unchanged(resource string, err error) (f *cli.Fault, ok bool) {
	if f, ok = errors.AsType[*cli.Fault](err); !ok {
		return nil, false
	}
	told := *f
	told.Why += "; " + resource + " was left as it was"
	return &told, true
}
