package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
)

// field is one of the five. Its elements are read by robfig/cron, which knows numbers, names, ranges and steps; what
// it lets pass or panics at never gets there.
type field struct {
	name, allowed string
	parser        cron.Parser
	of            func(*cron.SpecSchedule) uint64
}

const (
	minuteField = iota
	hourField
	dayField
	monthField
	weekdayField
)

var fields = [...]field{
	{"minute", "0-59", cron.NewParser(cron.Minute), func(s *cron.SpecSchedule) uint64 { return s.Minute }},
	{"hour", "0-23", cron.NewParser(cron.Hour), func(s *cron.SpecSchedule) uint64 { return s.Hour }},
	{"day of month", "1-31", cron.NewParser(cron.Dom), func(s *cron.SpecSchedule) uint64 { return s.Dom }},
	{"month", "1-12 or JAN-DEC", cron.NewParser(cron.Month), func(s *cron.SpecSchedule) uint64 { return s.Month }},
	{"day of week", "0-7 or SUN-SAT", cron.NewParser(cron.Dow), func(s *cron.SpecSchedule) uint64 { return s.Dow }},
}

// latest is what parseFields has understood last: a crontab has many lines, mostly alike, and each is read several times.
var latest atomic.Pointer[understoodFields]

type understoodFields struct {
	words []string
	*calendar
	fixed bool
}

// parseFields reads the five fields. fixed is cron(8)'s: neither minute nor hour begins with *.
func parseFields(words []string) (c *calendar, fixed bool, fault *Error) {
	if l := latest.Load(); l != nil && slices.Equal(l.words, words) {
		return l.calendar, l.fixed, nil
	}
	if n := len(words); n != len(fields) {
		hint := "write minute, hour, day of month, month and day of week"
		if n == len(fields)+1 {
			hint += "; there is no field for seconds"
		}
		why := fmt.Sprintf("%d fields instead of five", n)
		if n == 1 {
			why = "one field instead of five"
		}
		return nil, false, &Error{Why: why, Hint: hint}
	}
	var sets [len(fields)]uint64
	var star [len(fields)]bool
	for i, word := range words {
		star[i] = word[0] == '*'
		if sets[i], fault = fields[i].set(word); fault != nil {
			return nil, false, fault
		}
	}
	c = &calendar{
		minutes:  sets[minuteField],
		hours:    sets[hourField],
		days:     sets[dayField],
		months:   sets[monthField],
		weekdays: sets[weekdayField],
		both:     star[dayField] || star[weekdayField],
	}
	fixed = !star[minuteField] && !star[hourField]
	if fault = c.check(words); fault == nil {
		latest.Store(&understoodFields{words, c, fixed})
	}
	return c, fixed, fault
}

// check finds dates that do not exist.
func (c *calendar) check(words []string) *Error {
	const leapYear = 2000
	for month := time.January; month <= time.December; month++ {
		if c.months>>month&1 == 1 && c.days&upTo(lengthOf(leapYear, month)) != 0 {
			return nil
		}
	}
	return &Error{
		Why:  fmt.Sprintf("day of month: %s does not exist in month %s", quote(words[dayField]), quote(words[monthField])),
		Hint: "name a day that the month has; for its last day let the command look at the date",
	}
}

// set reads a field: a list of elements.
func (f *field) set(text string) (uint64, *Error) {
	var set uint64
	for element := range strings.SplitSeq(text, ",") {
		some, fault := f.element(element)
		if fault != nil {
			if element == "" {
				fault.Why = "empty element in " + quote(text)
			}
			fault.Why = f.name + ": " + fault.Why
			return 0, fault
		}
		set |= some
	}
	return set, nil
}

const understood = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*-/"

// element reads what stands between two commas.
func (f *field) element(text string) (uint64, *Error) {
	span, step, stepped := strings.Cut(text, "/")
	if strings.Trim(text, understood) != "" || strings.Contains(span, "*") && span != "*" {
		return 0, f.notUnderstood(text)
	}
	sunday := false
	if f == &fields[weekdayField] {
		span, sunday = withoutSeven(span)
	}
	set, ok := f.parse(span)
	switch {
	case !ok:
		return 0, f.whyNot(text, span)
	case !stepped:
		return set | sundayIf(sunday), nil
	case span != "*" && !strings.Contains(span, "-"):
		return 0, &Error{Why: quote(text) + " is a step without a range", Hint: "write */n or a-b/n, or the value alone"}
	}
	first := lowest(set)
	if set, ok = f.parse(span + "/" + step); !ok {
		return 0, &Error{Why: quote(text) + " has no step that is a number, 1 at least", Hint: "write */n or a-b/n"}
	}
	if n, err := strconv.Atoi(step); sunday && err == nil {
		set |= sundayIf((7-first)%n == 0)
	}
	if strings.TrimLeft(step, "0") != "1" && bits.OnesCount64(set) == 1 {
		return 0, &Error{Why: quote(text) + " has a step larger than its range", Hint: "write the value alone, or a smaller step"}
	}
	return set, nil
}

func (f *field) notUnderstood(text string) *Error {
	return &Error{
		Why:  quote(text) + " is not understood",
		Hint: "use " + f.allowed + ", *, ranges a-b, steps */n or a-b/n, and lists of these with commas",
	}
}

// whyNot says what is wrong with an element whose span cannot be parsed.
func (f *field) whyNot(text, span string) *Error {
	from, to, isRange := strings.Cut(span, "-")
	_, fromOK := f.parse(from)
	_, toOK := f.parse(to)
	switch {
	case isRange && fromOK && toOK:
		fault := &Error{Why: quote(text) + " goes backwards", Hint: "write two ranges with a comma"}
		if f == &fields[weekdayField] {
			fault.Hint += "; as the end of a range Sunday is 7"
		}
		return fault
	case from != "" && strings.Trim(from, "0123456789") == "" && (!isRange || to != "" && strings.Trim(to, "0123456789") == ""):
		return &Error{Why: quote(text) + " is out of range", Hint: "use " + f.allowed}
	}
	return f.notUnderstood(text)
}

// withoutSeven writes a span of weekdays without the 7, and says whether Sunday, its last day, is to be added:
// robfig/cron knows the days 0 to 6.
func withoutSeven(span string) (rest string, sunday bool) {
	from, to, isRange := strings.Cut(span, "-")
	isSeven := func(text string) bool { return strings.TrimLeft(text, "0") == "7" }
	switch {
	case isSeven(from) && (!isRange || isSeven(to)):
		return "0", false
	case isRange && isSeven(to):
		return from + "-6", true
	}
	return span, false
}

func sundayIf(yes bool) uint64 {
	if yes {
		return 1 << time.Sunday
	}
	return 0
}

// parse has robfig/cron read an element. With the characters of understood there is no input at which it panics:
// that takes the "=" of TZ=.
func (f *field) parse(element string) (uint64, bool) {
	parsed, err := f.parser.Parse(element)
	if err != nil {
		return 0, false
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return 0, false
	}
	const star = 1 << 63
	return f.of(s) &^ star, true
}
