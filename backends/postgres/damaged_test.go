package postgres

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/servers"
)

// columnsOf is the row with which a server answers who reads a job: one that nobody runs, in a table with a mark.
func columnsOf(job string) map[string]wire.Value {
	null := wire.Value{}
	return map[string]wire.Value{
		"echo": wire.Text(keyOf(job)), "recovery": wire.Text("f"), "identity": wire.Text("7000000000000000000:00000001:1700000000000000"),
		"now": wire.Text("1700000000000"), "waits": wire.Text("f"), "version": wire.Text("7"), "xmin": wire.Text("700"),
		"record": wire.Text(`{"job":"job","token":5,"released":5}`), "holder": null, "token": null, "until": wire.Text("1699999999999"),
		"beat": wire.Text("3"), "mark version": wire.Text("9"), "mark xmin": wire.Text("701"), "mark": wire.Text(`{"identity":"x"}`), "used": wire.Text("f"),
	}
}

func replyOf(columns map[string]wire.Value) wire.Reply {
	var row wire.Row
	for _, name := range []string{
		"echo", "recovery", "identity", "now", "waits", "version", "xmin", "record", "holder", "token", "until", "beat",
		"mark version", "mark xmin", "mark", "used",
	} {
		row = append(row, columns[name])
	}
	return wire.Reply{Rows: [][]wire.Row{nil, {row}}}
}

// TestDamagedRow: hazard: a row that cannot be read passes for a server that cannot be reached, and is tried for ever.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	d := open(t, "postgres://u@h")
	if s, err := d.store.state("job", replyOf(columnsOf("job"))); err != nil || s.record.Token != 5 || s.record.Beat != 3 || s.version != 7 {
		t.Fatalf("a row in order: %+v, %v", s, err)
	}
	null, word := wire.Value{}, wire.Text("seven")
	for name, change := range map[string]map[string]wire.Value{
		"version":                       {"version": word},
		"no version":                    {"version": null},
		"a version too large":           {"version": wire.Text("9223372036854775808")},
		"token":                         {"token": word},
		"a token of a holder":           {"holder": wire.Text("h"), "token": wire.Text("1.5")},
		"no token of a holder":          {"holder": wire.Text("h")},
		"a negative token":              {"holder": wire.Text("h"), "token": wire.Text("-5")},
		"nobody as holder":              {"holder": wire.Text(""), "token": wire.Text("5")},
		"until":                         {"until": wire.Text("infinity")},
		"beat":                          {"beat": word},
		"an empty record":               {"record": wire.Text("")},
		"a record of nothing":           {"record": wire.Text("null")},
		"a torn record":                 {"record": wire.Text(`{"job":`)},
		"a record of numbers":           {"record": wire.Text("17")},
		"a record with a token of text": {"record": wire.Text(`{"job":"job","token":"5"}`)},
	} {
		columns := columnsOf("job")
		maps.Copy(columns, change)
		_, err := d.store.state("job", replyOf(columns))
		p := permanent(err)
		if p.Kind != backends.Configuration || !strings.Contains(err.Error(), `"job"`) || !strings.Contains(err.Error(), "leaderrun") || p.Hint == "" {
			t.Errorf("%s: %v (%+v)", name, err, p)
		}
	}
	for _, version := range []wire.Value{null, word} {
		columns := columnsOf("job")
		columns["mark version"] = version
		_, err := d.store.state("job", replyOf(columns))
		if p := permanent(err); p.Kind != backends.Configuration || !strings.Contains(p.Hint, "DELETE") {
			t.Errorf("the mark has the version %v: %v", version, err)
		}
	}
	for name, change := range map[string]map[string]wire.Value{
		"another job": {"echo": wire.Text("other")}, "no time": {"now": word}, "nobody": {"identity": wire.Text("x")},
	} {
		columns := columnsOf("job")
		maps.Copy(columns, change)
		if _, err := d.store.state("job", replyOf(columns)); err == nil || backends.IsPermanent(err) {
			t.Errorf("%s, which is no fault of the row: %v", name, err)
		}
	}
}

// TestUnreadOnAStandby: hazard: the server that recovers after a failover, where a table without a log cannot be read, is taken for a
// damaged row, and who waits for the job gives up.
func TestUnreadOnAStandby(t *testing.T) {
	t.Parallel()
	d := open(t, "postgres://u@h")
	for code, damaged := range map[string]bool{"0A000": false, "22003": true, "22P02": true} {
		err := d.store.unread("job", &wire.Error{Severity: "ERROR", Code: code, Message: "cannot access temporary or unlogged relations during recovery"})
		if backends.IsPermanent(err) != damaged {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestDamagedTable: the same on a server, in whatever columns people make, and which steps meet it: none goes on for ever.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	s := servers.SharedPostgres(t)
	o := operator{open(t, s.URL()), s}
	o.trust(t)
	s.Do(t, `ALTER TABLE leaderrun ALTER version DROP NOT NULL, ALTER beat DROP NOT NULL`)
	s.Do(t, `INSERT INTO leaderrun (job, version, until) VALUES ('noversion', NULL, NULL), ('forever', 1, 'infinity'), ('never', 1, '-infinity')`)
	s.Do(t, `INSERT INTO leaderrun (job, version, beat) VALUES ('nobeat', 1, NULL)`)
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, job := range []string{"noversion", "forever", "never"} {
		_, err := o.Acquire(within, newSteady(job))
		if p := permanent(err); p.Kind != backends.Configuration || !strings.Contains(err.Error(), job) || !strings.Contains(p.Hint, "deletes the row") {
			t.Errorf("%s: %v (%+v)", job, err, p)
		}
		if _, err := o.Inspect(within, job); !backends.IsPermanent(err) {
			t.Errorf("%s: Inspect: %v", job, err)
		}
	}
	if _, err := o.Acquire(within, newSteady("nobeat")); err != nil {
		t.Errorf("a row that has everything that is needed: %v", err)
	}
	s.Do(t, `ALTER TABLE leaderrun RENAME TO beneath`)
	s.Do(t, `CREATE VIEW leaderrun AS SELECT job, xmin, version / (job <> 'nobeat')::int AS version, record, holder, token, until, beat FROM beneath`)
	if _, err := o.Inspect(within, "nobeat"); !backends.IsPermanent(err) || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("a value that the server cannot make: %v", err)
	}
	s.Do(t, `DROP VIEW leaderrun`)
	s.Do(t, `ALTER TABLE beneath RENAME TO leaderrun`)
	s.Do(t, `UPDATE leaderrun SET version = NULL WHERE job = ''`)
	_, err := o.Acquire(within, newSteady("job"))
	if p := permanent(err); p.Kind != backends.Configuration || !strings.Contains(p.Hint, "DELETE") {
		t.Errorf("a mark without a version: %v", err)
	}
}
