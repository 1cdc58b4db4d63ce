package launch

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/shards"
)

// EventShards is the end of the work on a tick or key that is divided.
const EventShards = "shards_worked"

// Sum is how many shards of a tick or key stand how. The names are a contract.
type Sum struct {
	Shards  int `json:"shards"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Failed  int `json:"failed"`
	Stopped int `json:"stopped"`
	Lost    int `json:"lost"`
	Missed  int `json:"missed"`
	Open    int `json:"open"` // not begun, or to be run again
}

// SumOf counts the shards of a tick or key.
func SumOf(o shards.Outcome) Sum {
	return Sum{
		Shards: o.Trigger.Parts, Done: o.Done, Running: o.Running, Open: o.Open, Failed: o.Ended[backends.Failed],
		Stopped: o.Ended[backends.Stopped], Lost: o.Ended[backends.Lost], Missed: o.Ended[backends.Missed],
	}
}

// parts are the numbers that are not 0, beside that of all.
func (s Sum) parts() (names []string, numbers []int) {
	for _, p := range []struct {
		name string
		n    int
	}{
		{"running", s.Running},
		{"failed", s.Failed},
		{"stopped", s.Stopped},
		{"lost", s.Lost},
		{"missed", s.Missed},
		{"open", s.Open},
	} {
		if p.n > 0 {
			names, numbers = append(names, p.name), append(numbers, p.n)
		}
	}
	return names, numbers
}

// Text is what people read: "14 of 16 done, 1 running, 1 failed".
func (s Sum) Text() string {
	words := []string{fmt.Sprintf("%d of %d done", s.Done, s.Shards)}
	names, numbers := s.parts()
	for i, name := range names {
		words = append(words, fmt.Sprintf("%d %s", numbers[i], name))
	}
	return strings.Join(words, ", ")
}

// Fields are the numbers for a log.
func (s Sum) Fields() []slog.Attr {
	fields := []slog.Attr{slog.Int("shards", s.Shards), slog.Int("done", s.Done)}
	names, numbers := s.parts()
	for i, name := range names {
		fields = append(fields, slog.Int(name, numbers[i]))
	}
	return fields
}
