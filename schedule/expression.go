package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/duration"
)

// standsFor has the fields of the names, as in crontab(5).
var standsFor = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// parseExpression reads one expression. given is the zone of one that names none.
func parseExpression(expr string, given *zones) (rule, error) {
	fault := func(why, hint string) (rule, error) { return rule{}, &Error{Expr: expr, Why: why, Hint: hint} }
	switch {
	case len(expr) > maxLength:
		return fault(fmt.Sprintf("longer than %d bytes", maxLength), "use ranges and steps, or several expressions")
	case strings.ContainsFunc(expr, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
		return fault("a character that is neither ASCII nor a blank", "type it again instead of pasting it")
	}
	words := strings.Fields(expr)
	if len(words) == 0 {
		return fault("empty expression", `write one, such as "0 2 * * *"`)
	}
	switch name, value, isSet := strings.Cut(words[0], "="); {
	case isSet && name == "CRON_TZ":
		if value == "" {
			return fault("CRON_TZ names no zone", "write CRON_TZ=Europe/Berlin, or leave it out")
		}
		given, words = &zones{expr: expr, name: value}, words[1:]
	case isSet:
		return fault(quote(words[0])+" before the minute", "only CRON_TZ=ZONE may stand there")
	}
	if len(words) == 0 {
		return fault("nothing after the zone", `write "CRON_TZ=Europe/Berlin 0 2 * * *"`)
	}
	r := rule{text: strings.Join(words, " ")}
	if words[0] == "@every" {
		return parseEvery(expr, words[1:], r, given)
	}
	if words[0][0] == '@' {
		same, known := standsFor[words[0]]
		switch {
		case words[0] == "@reboot":
			return fault("@reboot is no instant", "let systemd or cron start the job at boot, without a schedule")
		case !known:
			return fault("unknown name "+quote(words[0]), "there are @hourly, @daily, @weekly, @monthly, @yearly and @every D")
		case len(words) > 1:
			return fault("fields after "+words[0], "leave them out, or write five fields instead")
		}
		words = strings.Fields(same)
	}
	c, fixed, err := parseFields(words)
	if err != nil {
		err.Expr = expr
		return rule{}, err
	}
	r.pattern, r.fixed = c, fixed
	zone, zoneErr := given.get()
	r.zone = zone
	return r, zoneErr
}

// longestEvery keeps the multiples of @every well after 1970.
const longestEvery = 366 * 24 * time.Hour

func parseEvery(expr string, words []string, r rule, given *zones) (rule, error) {
	fault := func(why, hint string) (rule, error) { return rule{}, &Error{Expr: expr, Why: why, Hint: hint} }
	if len(words) != 1 {
		return fault("@every takes one duration", "write @every 90s, @every 1h30m or @every 2d")
	}
	d, err := duration.Parse(words[0])
	switch {
	case err != nil:
		return fault(quote(words[0])+" is not a duration", "write @every 90s, @every 1h30m or @every 2d")
	case d <= 0:
		return fault("@every "+quote(words[0])+" is not longer than nothing", "write @every 90s, @every 1h30m or @every 2d")
	case d%time.Second != 0:
		return fault("@every "+quote(words[0])+" has a fraction of a second", "use whole seconds, 1s at least")
	case d > longestEvery:
		return fault("@every "+quote(words[0])+" is longer than a year", "write the dates: 0 0 1 1 * is once a year")
	}
	r.pattern = multiples(d / time.Second)
	r.text = "@every " + tidy(d)
	if 24*time.Hour%d != 0 {
		r.zone = time.UTC
		return r, nil
	}
	r.fixed = d > time.Hour
	zone, err := given.get()
	r.zone = zone
	return r, err
}

// tidy writes a duration without the zeros that Duration.String puts at its end.
func tidy(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok {
			text = cut + zero[:1]
		}
	}
	return text
}
