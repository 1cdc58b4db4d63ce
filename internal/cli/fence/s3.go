package fence

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
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
)

func fenceS3Command() *cli.Command {
	return &cli.Command{
		Name: "fence s3", Args: "s3://BUCKET/KEY [-- COMMAND [ARG…]]", Brief: "replace an object in S3, unless the run was overtaken",
		About: `Replaces the data of KEY in one step with stdin, or with what COMMAND prints if COMMAND ends with code 0, unless a
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
		Examples: []cli.ExampleLine{
			{Does: "in a job: the list is that of the last run, whole", Line: "leaderrun run report sh -c 'leaderrun fence s3 s3://shop/list -- report --full'"},
			{Does: "what is in it", Line: "leaderrun fence s3 --read s3://shop/list >list"},
			{Does: "before a script reads what it will change", Line: "leaderrun run report leaderrun fence s3 --raise s3://shop/list"},
		},
		Options: fenceS3Options(), Run: runFenceS3, Rest: true,
	}
}

func fenceS3Options() []cli.Option {
	return append([]cli.Option{
		{
			Name: "read", Bare: true, Group: fenceGroup,
			Help: "write the data to stdout: no token is needed, and nothing is changed",
		},
		{
			Name: "endpoint", Value: "URL", Def: "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's", Check: cli.By(parseEndpoint), Group: fenceGroup,
			Example: "https://s3.example.com", Help: "a server that speaks S3",
		},
		{
			Name: "region", Value: "REGION", Def: "AWS_REGION, AWS_DEFAULT_REGION, or us-east-1", Check: cli.By(parseRegion), Group: fenceGroup,
			Example: "eu-west-1", Help: "where the bucket is",
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

func runFenceS3(c *cli.Call) (cli.ExitStatus, error) {
	var r fence.Run
	if !c.Settings.On("read") {
		var err error
		if r, err = fencedRun(c); err != nil {
			return cli.ExitStatus{}, err
		}
	}
	o, err := planS3(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	var content *content
	if !c.Settings.On("read") && !c.Settings.On("raise") {
		if content, err = newContent(c, c.Args[1:]); err != nil {
			return cli.ExitStatus{}, err
		}
	}
	ctx, cancel := c.SignalContext()
	defer cancel()
	if c.Settings.On("read") {
		return cli.ExitStatus{}, readS3(ctx, c, o)
	}
	return cli.ExitStatus{}, writeS3(ctx, c, o, r, content)
}

// planS3 makes the object of the command line, or says what is wrong with it.
func planS3(c *cli.Call) (*s3fence.Object, error) {
	hint := "usage: " + c.Cmd.UsageLine()
	reads, raises := c.Settings.On("read"), c.Settings.On("raise")
	switch {
	case len(c.Args) == 0 || c.Args[0] == "--":
		return nil, cli.Usage("s3://BUCKET/KEY is missing", "", hint)
	case reads && raises:
		return nil, cli.Usage("--read --raise", "one call does one of both", hint)
	case reads && len(c.Args) > 1:
		return nil, cli.Usage("--read", "it writes nothing, and takes s3://BUCKET/KEY alone", hint)
	case raises && len(c.Args) > 1:
		return nil, cli.Usage("--raise", "it writes nothing, and takes s3://BUCKET/KEY alone", hint)
	}
	address, isS3 := strings.CutPrefix(c.Args[0], "s3://")
	bucket, key, _ := strings.Cut(address, "/")
	switch _, err := s3fence.NewBucket(s3fence.Config{Name: bucket}); {
	case !isS3:
		return nil, cli.Usage(launch.QuoteWord(c.Args[0]), "it does not begin with s3://", hint)
	case err != nil:
		return nil, cli.Usage(launch.QuoteWord(c.Args[0]), err.Error(), hint)
	case key == "" || strings.HasSuffix(key, "/"):
		return nil, cli.Usage(launch.QuoteWord(c.Args[0]), "it names no object", hint)
	case s3fence.CheckKey(key) != nil:
		return nil, cli.Usage(launch.QuoteWord(c.Args[0]), s3fence.CheckKey(key).Error(), hint)
	}
	store, err := openBucket(c, bucket)
	if err != nil {
		return nil, err
	}
	return &s3fence.Object{
		Store: store, Key: key, Resource: cmp.Or(cli.Read(c.Settings, "resource", cli.ParseText, ""), c.Args[0]),
		Leftover: func(key string, err error) {
			c.Console.Warn("s3://"+bucket+"/"+key+" cannot be deleted: "+err.Error(), "nothing points to it any more: it costs money and does no harm")
		},
	}, c.Settings.Err
}

// openBucket finds server, region and keys as other clients of S3 do. It connects to nobody.
func openBucket(c *cli.Call, name string) (*s3fence.Bucket, error) {
	get := func(variable string) string { v, _ := c.Settings.Lookup(variable); return v }
	config := s3fence.Config{
		Name:     name,
		Region:   cmp.Or(cli.Read(c.Settings, "region", parseRegion, ""), get("AWS_REGION"), get("AWS_DEFAULT_REGION")),
		Endpoint: cmp.Or(cli.Read(c.Settings, "endpoint", parseEndpoint, ""), get("AWS_ENDPOINT_URL_S3"), get("AWS_ENDPOINT_URL")),
	}
	if c.Settings.Err != nil {
		return nil, c.Settings.Err
	}
	var err error
	if config.Keys, err = s3fence.KeysFrom(c.Settings.Lookup); err != nil {
		return nil, fenceFailed("s3", err)
	}
	for _, secret := range []string{config.Keys.Secret, config.Keys.Session} {
		if len(secret) >= cli.MinSecret {
			c.Console.KeepSecret(secret)
		}
	}
	b, err := s3fence.NewBucket(config)
	if err != nil {
		return nil, fenceFailed("AWS_REGION, AWS_ENDPOINT_URL", err)
	}
	return b, nil
}

// writeS3 writes the content; nil: only the fence is raised.
func writeS3(ctx context.Context, c *cli.Call, o *s3fence.Object, r fence.Run, content *content) error {
	w, err := o.Raise(ctx, r)
	if err != nil {
		return fenceFailed(c.Args[0], err)
	}
	if content == nil {
		return nil
	}
	spool, err := newSpool()
	if err != nil {
		return &cli.Fault{Code: cli.CodeInternal, What: "the temporary file", Why: cli.Reason(err), Err: err}
	}
	defer func() { _ = spool.Close() }()
	err = content.writeTo(ctx, spool)
	if told, ok := unchanged(c.Args[0], err); ok {
		return told
	}
	if err != nil {
		return &cli.Fault{Code: cli.CodeInternal, What: "the temporary file", Why: cli.Reason(err), Err: err}
	}
	if err := w.Replace(ctx, spool); err != nil {
		return fenceFailed(c.Args[0], err)
	}
	c.Written = c.Args[0] + " was replaced"
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

func readS3(ctx context.Context, c *cli.Call, o *s3fence.Object) error {
	out := &heard{w: c.Stdout}
	err := o.Read(ctx, out)
	switch {
	case errors.Is(out.err, syscall.EPIPE):
		return cli.ErrNoReader
	case out.err != nil:
		return &cli.Fault{Code: cli.CodeInternal, What: "stdout", Why: cli.Reason(out.err), Err: out.err}
	case errors.Is(err, s3fence.ErrNoData):
		return &cli.Fault{Code: cli.CodeNoData, What: c.Args[0], Why: err.Error(), Err: err}
	case err != nil:
		return fenceFailed(c.Args[0], err)
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
