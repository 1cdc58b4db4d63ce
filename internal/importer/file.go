package importer

import (
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// File is a crontab that was imported.
type File struct {
	Source
	After []byte // what to write
	Jobs  []*Job // what became of its lines, but for those that were wrapped before
	rows  []row
}

// row is a line, and what becomes of it.
type row struct {
	crontab.Line
	marks string // the comments above that this package has written
	name  string // that of a comment "# job: NAME" above; "": there is none
	stays bool   // a comment above says so
	job   *Job   // nil: it is none, or a run already
	after string // what is written in the place of marks and line
}

// read takes a crontab apart.
func read(s Source) *File {
	lines := crontab.Parse(s.Text, s.Format)
	f := &File{Source: s, rows: make([]row, 0, len(lines))}
	marks := ""
	for _, l := range lines {
		if text := strings.TrimSpace(l.Text); l.Kind == crontab.Comment && strings.HasPrefix(text, mark) && text != leave {
			marks += l.Text // it is written again where it still holds
			continue
		}
		r := row{Line: l, marks: marks}
		if n := len(f.rows); n > 0 && f.rows[n-1].Kind == crontab.Comment {
			above := &f.rows[n-1]
			r.name, _ = crontab.NameIn(above.Text)
			if r.stays = strings.TrimSpace(above.Text) == leave; r.stays {
				r.name = above.name
			}
		}
		f.rows, marks = append(f.rows, r), ""
	}
	if marks != "" {
		f.rows = append(f.rows, row{marks: marks})
	}
	return f
}

// Changed says whether there is anything to write.
func (f *File) Changed() bool { return string(f.Text) != string(f.After) }

// Wrapped counts the lines that became runs.
func (f *File) Wrapped() (n int) {
	for _, j := range f.Jobs {
		if j.Word != Left {
			n++
		}
	}
	return n
}

// isCut says whether a line that counts has no end.
func (r *row) isCut() bool {
	return r.Kind != crontab.Comment && r.Kind != crontab.Blank && r.End() == ""
}

// write makes the text.
func (f *File) write() {
	f.After = nil
	for i := range f.rows {
		r := &f.rows[i]
		r.after = r.Text
		if r.isCut() {
			r.after += "\n"
		}
		switch j := r.job; {
		case j == nil || j.unsaid:
		case j.Word == Left:
			r.after = mark + "not wrapped: " + j.Why + "\n" + r.after
		default:
			r.after = r.Text[:r.At] + j.command() + r.after[r.At+len(r.Command):]
		}
		f.After = append(f.After, r.after...)
	}
}

// readBack leaves the lines that are wrong as they were written.
func (f *File) readBack(found []Wrong) {
	wrong := map[int]string{}
	for _, w := range found {
		wrong[w.Line] = w.Why
	}
	line, again := 0, false
	for i := range f.rows {
		r := &f.rows[i]
		line += strings.Count(r.after, "\n")
		if j := r.job; j != nil && j.Word != Left && wrong[line] != "" {
			j.leave("what import would write is wrong: "+wrong[line], "wrap it by hand")
			again = true
		}
	}
	if again {
		f.write()
	}
}
