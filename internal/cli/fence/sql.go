package fence

import (
	"errors"
	"strings"
	"unicode"

	"github.com/leaderrun/leaderrun/fence/sqlfence"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
)

func fenceSQLCommand() *cli.Command {
	return &cli.Command{
		Name: "fence sql", Args: "", Brief: "print what a SQL database needs to refuse a stale run",
		About: `Prints a table and a function (a trigger in SQLite) for psql, mysql or mariadb, and sqlite3 to install, and as
comments how to call them. It needs no token and connects to nothing. It may be installed again: rows and rights
stay, and functions are made anew (MySQL, not MariaDB, leaves those that are there as they are).

SELECT leaderrun_fence('NAME', TOKEN) is the first statement of a transaction then. It fails a stale one, with
which nothing is written. The exit code is that of the database's client: 3 for psql, 1 for the others. SQLite
has no functions: there it is an INSERT into leaderrun_fence. A row of leaderrun_done says what is done already
for a job and tick: in the same transaction, so that to run it again after a crash does it once. Two effects of
one run belong into one transaction, or each gets a name of its own in the place of the job.

What this cannot do: protect a statement outside of such a transaction, a client that is told to go on after
errors (the comments say how each is told not to), an account that may write the tables by other ways, or a
database that loses committed transactions in a failover: it loses the fence with them. Clusters in which several
servers take writes are not tried.`,
		Examples: []cli.ExampleLine{
			{Does: "install it in PostgreSQL", Line: `leaderrun fence sql --dialect postgres | psql -X -v ON_ERROR_STOP=1 "$DATABASE_URL"`},
			{Does: "in MySQL or MariaDB", Line: "leaderrun fence sql --dialect mysql | mysql invoices"},
			{Does: "in SQLite", Line: "leaderrun fence sql --dialect sqlite | sqlite3 -bail invoices.db"},
		},
		Options: append(sqlOptions(), cli.CommonOptions()...), Run: runFenceSQL,
	}
}

func sqlOptions() []cli.Option {
	return []cli.Option{
		{
			Name: "dialect", Value: strings.Join(dialects(), "|"), Words: dialects(),
			Check: cli.By(sqlfence.ParseDialect), Group: fenceGroup, Help: "what the database speaks; MariaDB speaks mysql",
		},
		{
			Name: "resource", Value: "NAME", Def: "invoices", Check: cli.By(parseSQLResource), Group: fenceGroup, Example: "invoices",
			Help: "what is protected: its name in the comments",
		},
	}
}

func dialects() []string {
	var names []string
	for _, d := range sqlfence.Dialects() {
		names = append(names, string(d))
	}
	return names
}

func runFenceSQL(c *cli.Call) (cli.ExitStatus, error) {
	if len(c.Args) > 0 {
		return cli.ExitStatus{}, cli.Usage(launch.QuoteWord(c.Args[0]), "fence sql takes no arguments", "usage: "+c.Cmd.UsageLine())
	}
	dialect := cli.Read(c.Settings, "dialect", sqlfence.ParseDialect, "")
	resource := cli.Read(c.Settings, "resource", parseSQLResource, "")
	switch {
	case c.Settings.Err != nil:
		return cli.ExitStatus{}, c.Settings.Err
	case dialect == "":
		return cli.ExitStatus{}, cli.Usage("--dialect", "is missing", "write --dialect "+strings.Join(dialects(), "|"))
	}
	return cli.ExitStatus{}, c.Print(sqlfence.Schema(dialect, resource))
}

// parseSQLResource refuses a name that would not stay within a comment.
func parseSQLResource(name string) (string, error) {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errors.New("it has a character that cannot be printed")
	}
	return sqlfence.ParseName(name)
}
