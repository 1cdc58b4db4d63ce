package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/redisfence"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/redisclient"
)

const (
	fenceRedisLimit = 10 * time.Second
	redisPassword   = "REDISCLI_AUTH" // as redis-cli has it
)

func fenceRedisCommand() *cli.Command {
	return &cli.Command{
		Name: "fence redis", Args: "URL [COMMAND [ARG…]]", Brief: "run one command of Redis, unless the run is stale",
		About: `Raises the fence, and then runs a command of Redis and prints its reply as redis-cli(1) does. The check of the
token and the command are one step of the server. A script is a command too: EVAL SCRIPT NUMKEYS KEY… ARG….
Without --resource the job is what is protected. Its fence is the key leaderrun:fence:{NAME}, which never
expires. On a Cluster the keys that are written have {NAME} in their names too.

URL is redis://USER:PASSWORD@HOST:PORT/DB, rediss:// (TLS; ?ca=FILE&cert=FILE&key=FILE), redis+unix:///SOCKET?db=N,
redis+sentinel://HOST,HOST/MASTER/DB or redis+cluster://HOST,HOST. A password in it is seen by everybody on this
host: better set ` + redisPassword + `. The user needs +eval +evalsha +get +set, and what the command uses.

No answer within ` + fenceRedisLimit.String() + ` is exit code 69. Where it is said then that nobody knows whether the command was done,
look before it is done again. 64 is for a command that Redis does not know or that scripts may not run (MULTI,
SUBSCRIBE), 78 for one that failed, as on a key of another kind: it has changed nothing. A script that failed is 78
whatever its error was, or 77 where the user may not do what it does; what it wrote before stays. 70 and 141 are
for a reply that could not be written to stdout: the command was done.

What this cannot do: a failover that loses the last writes may lose the fence with them, and FLUSHALL or eviction
(maxmemory-policy allkeys-*) remove it: an earlier run passes then, until the latest one writes again. The reply
is as scripts see it: an integer above 2^53 is rounded. While a Cluster moves a slot, its keys are refused: 69.`,
		Examples: []cli.ExampleLine{
			{Does: "before the command reads what it will change", Line: `leaderrun fence redis --raise "$REDIS_URL"`},
			{Does: "write, unless a later run has begun", Line: `leaderrun fence redis "$REDIS_URL" SET '{report}:state' sent`},
			{Does: "several writes in one step", Line: `leaderrun fence redis "$REDIS_URL" EVAL "$(cat close.lua)" 2 '{report}:queue' '{report}:round'`},
		},
		Options: fenceOptions(), Run: runFenceRedis, Rest: true,
	}
}

func runFenceRedis(c *cli.Call) (cli.ExitStatus, error) {
	r, err := fencedRun(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	url, words, err := redisCommand(c)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	name, err := redisResource(c, r)
	if err != nil {
		return cli.ExitStatus{}, err
	}
	password, _ := c.Settings.Lookup(redisPassword)
	c.Console.KeepSecret(cli.SecretsOf(url)...)
	if len(password) >= cli.MinSecret {
		c.Console.KeepSecret(password)
	}
	client, err := redisclient.Open(url, password)
	if err != nil {
		return cli.ExitStatus{}, cli.Usage("URL", err.Error(), cli.HintOf(err))
	}
	defer client.Close()
	ctx, cancel := c.SignalContext()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() }) // a request in flight ends by nothing else
	defer stop()
	ctx, cancel = context.WithTimeout(ctx, fenceRedisLimit)
	defer cancel()

	w, err := redisfence.New(client, name).Raise(ctx, r)
	if err != nil || len(words) == 0 {
		return cli.ExitStatus{}, redisFailed(name, err)
	}
	reply, err := w.Do(ctx, words...)
	if err != nil {
		return cli.ExitStatus{}, redisFailed(name, err)
	}
	c.Written = name + ": the command was done"
	return cli.ExitStatus{}, printReply(c, rawReply(reply)+"\n")
}

// printReply is print for the reply to what cannot be taken back.
func printReply(c *cli.Call, text string) error {
	const done = "the command was done"
	err := c.Print(text)
	if f, ok := errors.AsType[*cli.Fault](err); ok {
		f.Why += "; " + done
	}
	if errors.Is(err, cli.ErrNoReader) {
		c.Console.Warn("stdout: nobody reads it; "+done, "")
	}
	return err
}

// redisCommand takes the arguments: the URL, and the words of the command unless the fence is only raised.
func redisCommand(c *cli.Call) (url string, words []any, err error) {
	hint := "usage: " + c.Cmd.UsageLine()
	if len(c.Args) == 0 {
		return "", nil, cli.Usage("URL is missing", "", hint)
	}
	url, args := c.Args[0], c.Args[1:]
	switch {
	case len(args) > 0 && args[0] == "--":
		args = args[1:]
	case len(args) > 0 && strings.HasPrefix(args[0], "-"):
		return "", nil, cli.Usage(c.Cmd.Name, fmt.Sprintf("%q stands after URL: options go before", args[0]), hint)
	}
	raise := c.Settings.On("raise")
	if c.Settings.Err != nil {
		return "", nil, c.Settings.Err
	}
	switch {
	case raise && len(args) > 0:
		return "", nil, cli.Usage("--raise", "it writes nothing, and there is a COMMAND", "leave out one of them")
	case !raise && (len(args) == 0 || args[0] == ""):
		return "", nil, cli.Usage("COMMAND is missing", "", "only to raise the fence: --raise")
	}
	for _, arg := range args {
		words = append(words, arg)
	}
	return url, words, nil
}

// redisResource is the name of what is protected: without one, what the job writes.
func redisResource(c *cli.Call, r fence.Run) (string, error) {
	name := cli.Read(c.Settings, "resource", cli.ParseText, r.Job)
	if c.Settings.Err != nil {
		return "", c.Settings.Err
	}
	if name == "" {
		return "", cli.Usage("--resource", "nothing says what is protected", "give --resource NAME; `leaderrun run` sets LEADERRUN_JOB, which is used without it")
	}
	return name, nil
}

// redisFailed is the error of a fence in Redis.
func redisFailed(name string, err error) error {
	if failed, ok := errors.AsType[*redisfence.CommandError](err); ok {
		f := &cli.Fault{Code: cli.CodeConfiguration, What: name, Why: failed.Error(), Hint: failed.Hint, Err: err, Written: mayBeWritten(err)}
		switch {
		case failed.Misused:
			f.Code = cli.CodeUsage
		case failed.Kind == fence.Credentials:
			f.Code = cli.CodeCredentials
		}
		return f
	}
	if err == nil {
		return nil
	}
	return fenceFailed(name, err)
}

// rawReply is a reply as redis-cli prints it where stdout is no terminal.
func rawReply(reply any) string {
	switch v := reply.(type) {
	case nil:
		return ""
	case []any:
		lines := make([]string, len(v))
		for i, element := range v {
			lines[i] = rawReply(element)
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprint(reply)
}
