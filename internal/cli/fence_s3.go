package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

func fenceS3Command() *command {
	return &command{
		name: "fence s3", args: "s3://BUCKET/KEY [-- COMMAND [ARG…]]", brief: "replace an object in S3, unless the run was overtaken",
		about: `Replaces the data of KEY in one step with stdin, or with what COMMAND prints if COMMAND ends with code 0, unless a
run with a higher token has raised the fence of KEY by then. First the fence is raised, and then stdin is read or
COMMAND started. If COMMAND fails, its exit code is that of leaderrun and KEY is left as it was.

KEY itself becomes a small pointer (JSON): the token, and in .data the key of the data, which lies under KEY.d/ and
never changes. S3 replaces the pointer only if it is still the version that was read (If-Match). --read prints the
data, for anybody, also outside of a run; 1 is the exit code if there is none yet. It checks the size before the
first byte and the SHA-256 at the end: after another code than 0, what was printed is not to be used. With the AWS
command line: aws s3 cp s3://BUCKET/"$(aws s3 cp s3://BUCKET/KEY - | jq -r .data)" -

The keys are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or those of AWS_PROFILE in
~/.aws/credentials; for roles and SSO: eval "$(aws configure export-credentials --format env)". They need
s3:GetObject, s3:PutObject and s3:DeleteObject on KEY and KEY.d/*, and s3:ListBucket on the bucket. At most 5 GiB are
written, by way of a temporary file in TMPDIR. A transfer takes its time; a minute of silence ends it. 69 is for a
server that cannot be reached. Where it is said then that nobody knows whether it was written, it may yet be: --raise
in the same run ends that, as the next run does, and then --read tells.

What it cannot see: who writes or deletes KEY by other means goes past the fence (a bucket policy can forbid writes
without a condition), and a KEY that is deleted has forgotten its token. "producer | leaderrun fence s3 …" writes
half an output if producer fails in the middle, and may if the run is stopped; COMMAND does not. A stdin that is
/dev/null or closed is refused (64), and so is a server that ignores conditions (78).
The data that was replaced last is kept for those who are reading it. What a killed upload leaves under KEY.d/ costs
money and does no harm: it may be deleted if its name begins with a lower token than that of KEY and KEY does not
name it, or with probe-. Let no rule delete by age there: the data of KEY may be old.`,
		examples: []exampleLine{
			{"in a job: the list is that of the last run, whole", "leaderrun run report sh -c 'leaderrun fence s3 s3://shop/list -- report --full'"},
			{"what is in it", "leaderrun fence s3 --read s3://shop/list >list"},
			{"before a script reads what it will change", "leaderrun run report leaderrun fence s3 --raise s3://shop/list"},
		},
		options: fenceS3Options(), run: runFenceS3, rest: true,
	}
}

func fenceS3Options() []option {
	return append([]option{
		{
			name: "read", bare: true, group: fenceGroup,
			help: "write the data to stdout: no token is needed, and nothing is changed",
		},
		{
			name: "endpoint", value: "URL", def: "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's", check: by(parseEndpoint), group: fenceGroup,
			example: "https://s3.example.com", help: "a server that speaks S3",
		},
		{
			name: "region", value: "REGION", def: "AWS_REGION, AWS_DEFAULT_REGION, or us-east-1", check: by(parseRegion), group: fenceGroup,
			example: "eu-west-1", help: "where the bucket is",
		},
	}, fenceOptions()...)
}

func parseEndpoint(text string) (string, error) {
	_, err := s3fence.NewBucket(s3fence.Config{Name: "bucket", Endpoint: text})
	return text, err
}

func parseRegion(text string) (string, error) {
	_, err := s3fence.NewBucket(s3fence.Config{Name: "bucket", Region: text})
	return text, err
}

func runFenceS3(c *call) (ExitStatus, error) {
	var r fence.Run
	if !c.settings.on("read") {
		var err error
		if r, err = c.fencedRun(); err != nil {
			return ExitStatus{}, err
		}
	}
	o, err := c.planS3()
	if err != nil {
		return ExitStatus{}, err
	}
	var content *content
	if !c.settings.on("read") && !c.settings.on("raise") {
		if content, err = c.newContent(c.args[1:]); err != nil {
			return ExitStatus{}, err
		}
	}
	ctx, cancel := c.context()
	defer cancel()
	if c.settings.on("read") {
		return ExitStatus{}, c.readS3(ctx, o)
	}
	return ExitStatus{}, c.writeS3(ctx, o, r, content)
}

// planS3 makes the object of the command line, or says what is wrong with it.
func (c *call) planS3() (*s3fence.Object, error) {
	hint := "usage: " + c.cmd.usageLine()
	reads, raises := c.settings.on("read"), c.settings.on("raise")
	switch {
	case len(c.args) == 0 || c.args[0] == "--":
		return nil, usage("s3://BUCKET/KEY is missing", "", hint)
	case reads && raises:
		return nil, usage("--read --raise", "one call does one of both", hint)
	case reads && len(c.args) > 1:
		return nil, usage("--read", "it writes nothing, and takes s3://BUCKET/KEY alone", hint)
	case raises && len(c.args) > 1:
		return nil, usage("--raise", "it writes nothing, and takes s3://BUCKET/KEY alone", hint)
	}
	address, isS3 := strings.CutPrefix(c.args[0], "s3://")
	bucket, key, _ := strings.Cut(address, "/")
	switch _, err := s3fence.NewBucket(s3fence.Config{Name: bucket}); {
	case !isS3:
		return nil, usage(quoteWord(c.args[0]), "it does not begin with s3://", hint)
	case err != nil:
		return nil, usage(quoteWord(c.args[0]), err.Error(), hint)
	case key == "" || strings.HasSuffix(key, "/"):
		return nil, usage(quoteWord(c.args[0]), "it names no object", hint)
	case s3fence.CheckKey(key) != nil:
		return nil, usage(quoteWord(c.args[0]), s3fence.CheckKey(key).Error(), hint)
	}
	store, err := c.openBucket(bucket)
	if err != nil {
		return nil, err
	}
	return &s3fence.Object{
		Store: store, Key: key, Resource: cmp.Or(read(c.settings, "resource", parseText, ""), c.args[0]),
		Leftover: func(key string, err error) {
			c.console.warn("s3://"+bucket+"/"+key+" cannot be deleted: "+err.Error(), "nothing points to it any more: it costs money and does no harm")
		},
	}, c.settings.err
}

// openBucket finds server, region and keys as other clients of S3 do. It connects to nobody.
func (c *call) openBucket(name string) (*s3fence.Bucket, error) {
	get := func(variable string) string { v, _ := c.settings.lookup(variable); return v }
	config := s3fence.Config{
		Name:     name,
		Region:   cmp.Or(read(c.settings, "region", parseRegion, ""), get("AWS_REGION"), get("AWS_DEFAULT_REGION")),
		Endpoint: cmp.Or(read(c.settings, "endpoint", parseEndpoint, ""), get("AWS_ENDPOINT_URL_S3"), get("AWS_ENDPOINT_URL")),
	}
	if c.settings.err != nil {
		return nil, c.settings.err
	}
	var err error
	if config.Keys, err = s3fence.KeysFrom(c.settings.lookup); err != nil {
		return nil, fenceFailed("s3", err)
	}
	for _, secret := range []string{config.Keys.Secret, config.Keys.Session} {
		if len(secret) >= minSecret {
			c.console.keepSecret(secret)
		}
	}
	b, err := s3fence.NewBucket(config)
	if err != nil {
		return nil, fenceFailed("AWS_REGION, AWS_ENDPOINT_URL", err)
	}
	return b, nil
}

// writeS3 writes the content; nil: only the fence is raised.
func (c *call) writeS3(ctx context.Context, o *s3fence.Object, r fence.Run, content *content) error {
	w, err := o.Raise(ctx, r)
	if err != nil {
		return fenceFailed(c.args[0], err)
	}
	if content == nil {
		return nil
	}
	spool, err := newSpool()
	if err != nil {
		return &fault{code: codeInternal, what: "the temporary file", why: reason(err), err: err}
	}
	defer func() { _ = spool.Close() }()
	err = content.writeTo(ctx, spool)
	if told, ok := unchanged(c.args[0], err); ok {
		return told
	}
	if err != nil {
		return &fault{code: codeInternal, what: "the temporary file", why: reason(err), err: err}
	}
	if err := w.Replace(ctx, spool); err != nil {
		return fenceFailed(c.args[0], err)
	}
	c.written = c.args[0] + " was replaced"
	return nil
}

// newSpool makes a file that has no name: it goes with this process. Size and hash are to be known before the upload.
func newSpool() (*os.File, error) {
	f, err := os.CreateTemp("", "leaderrun-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (c *call) readS3(ctx context.Context, o *s3fence.Object) error {
	out := &heard{w: c.stdout}
	err := o.Read(ctx, out)
	switch {
	case errors.Is(out.err, syscall.EPIPE):
		return errNoReader
	case out.err != nil:
		return &fault{code: codeInternal, what: "stdout", why: reason(out.err), err: out.err}
	case errors.Is(err, s3fence.ErrNoData):
		return &fault{code: codeNoData, what: c.args[0], why: err.Error(), err: err}
	case err != nil:
		return fenceFailed(c.args[0], err)
	}
	return nil
}

// heard is a writer that keeps its error, so that it is not taken for one of whoever is read.
type heard struct {
	w   io.Writer
	err error
}

func (h *heard) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	if err != nil {
		h.err = err
	}
	return n, err
}
