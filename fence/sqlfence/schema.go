package sqlfence

import (
	"context"
	"database/sql"
	"embed"
	"strings"
)

//go:embed schema
var schemas embed.FS

// exampleResource is the resource in the comments of a schema.
const exampleResource = "invoices"

// Schema returns what the database's own client installs: the tables, the functions (a trigger in SQLite) and, as comments,
// how scripts call them. It may be installed again, over that of another version. The comments speak of resource; "": an
// example.
func Schema(d Dialect, resource string) string {
	usage := d.part("usage")
	if resource != "" {
		usage = strings.ReplaceAll(usage, "'"+exampleResource+"'", "'"+strings.ReplaceAll(resource, "'", "''")+"'")
	}
	return d.part("tables") + "\n" + d.part("functions") + "\n" + usage
}

// Install makes the tables where they are missing. This package needs no more of the schema, and no right to make
// functions.
func Install(ctx context.Context, db *sql.DB, d Dialect) error {
	for statement := range strings.SplitSeq(d.part("tables"), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
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
