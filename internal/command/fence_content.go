package command

import (
	"context"
	"io"
)

// content is what a run writes to a resource: what comes by stdin, or what COMMAND prints.
type content struct {
	call    *call
	command []string // COMMAND and its arguments; nil: stdin
}

// newContent takes the arguments behind what is to be replaced: none, or "--" and COMMAND. COMMAND is looked up now, so that
// a host that lacks it touches nothing.
func (c *call) newContent(rest []string) (*content, error) {
	if len(rest) > 0 {
		return nil, usage(c.cmd.name, "COMMAND cannot be run yet", "")
	}
	return &content{call: c}, nil
}

// writeTo writes all of it. After an error nothing of it may be used.
func (t *content) writeTo(ctx context.Context, w io.Writer) error {
	_, err := io.Copy(w, t.call.stdin)
	if err == nil {
		err = ctx.Err()
	}
	return err
}
