package sqlfence

import (
	"context"
	"database/sql"
	"embed"
	"strings"
)

//go:embed schema
var schemas embed.FS

// exampleResource is the resource in the comments of a schema if nobody names one.
const exampleResource = "invoices"

// Schema returns what the database's own client installs: the tables, the functions (a trigger in SQLite) and, as comments,
// how scripts call them. The comments speak of resource, which ParseName has taken; "": an example.
//
// It may be installed again. In MySQL that leaves functions as they are if they are there; in the others, and in MariaDB, it
// replaces them.
func Schema(d Dialect, resource string) string {
	if resource == "" {
		resource = exampleResource
	}
	before, after := d.engine().frame()
	usage := strings.ReplaceAll(d.part("usage"), "{resource}", d.engine().literal(resource))
	return before + d.part("tables") + "\n" + d.part("functions") + after + "\n" + usage
}

// Install makes the tables where they are missing. This package needs no more of the schema, and no right to make
// functions.
func Install(ctx context.Context, db *sql.DB, d Dialect) error {
	for statement := range strings.SplitSeq(d.part("tables"), ";\n\n") {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return d.explain("create the tables", err)
		}
	}
	return nil
}

// part is a file of the dialect's schema.
func (d Dialect) part(name string) string {
	text, err := schemas.ReadFile("schema/" + string(d) + "/" + name + ".sql")
	if err != nil {
		panic(err) // only New and ParseDialect make dialects
	}
	return string(text)
}

// plain says whether a text means the same in every encoding, and has no backslash.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' })
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
