package servers

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestMariaDB(t *testing.T) {
	s := MariaDB(t, MariaDBOptions{})
	do := func(query string, change ...func(*mysql.Config)) error {
		config := s.Config()
		for _, f := range change {
			f(config)
		}
		c, err := mysql.NewConnector(config)
		if err != nil {
			return err
		}
		db := sql.OpenDB(c)
		defer func() { _ = db.Close() }()
		_, err = db.ExecContext(t.Context(), query)
		return err
	}
	if err := do("CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"leaderrun", "root", "mysql", "mariadb.sys", "anybody"} {
		if err := do("SELECT 1", func(c *mysql.Config) { c.User, c.Passwd, c.DBName = user, "", "" }); err == nil {
			t.Errorf("every user of this machine may enter as %s", user)
		}
	}
	s.Stop(t)
	if s.Answers() == nil {
		t.Error("it answers although it is frozen")
	}
	s.Cont(t)
	Eventually(t, "an answer", func() bool { return s.Answers() == nil })
	s.Restart(t, true)
	if err := do("SELECT * FROM kept"); err != nil {
		t.Errorf("after a crash: %v", err)
	}
	s.Restart(t, false)
	if err := do("SELECT * FROM kept"); err == nil {
		t.Error("it comes back with the data that it was to lose")
	}
}
