package schedule

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	minuteSeconds = 60
	daySeconds    = 24 * 60 * minuteSeconds
	lastYear      = 10000 // nothing is looked for beyond it, nor before firstYear
	firstYear     = 1969
)

// calendar is the pattern of five fields. Bit n of a set stands for the value n.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	both                                   bool // a day must be in days and weekdays, not in either
}

func (c *calendar) key() string {
	days, weekdays, both := c.days, c.weekdays, c.both
	// Where either is enough and one of them is every day, it is every day.
	if !both && (days == everyDay || weekdays == everyWeekday) {
		days, weekdays, both = everyDay, everyWeekday, true
	}
	return fmt.Sprintf("cron %x %x %x %x %x both=%t", c.minutes, c.hours, days, c.months, weekdays, both)
}

const (
	everyDay     = 1<<32 - 1<<1
	everyWeekday = 1<<7 - 1
)

// daysOf returns which days of a month match.
func (c *calendar) daysOf(year int, month time.Month) uint64 {
	if c.months>>month&1 == 0 {
		return 0
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday()
	week := (c.weekdays>>first | c.weekdays<<(7-first)) & everyWeekday // bit 0 is the weekday of the 1st
	matching := (week | week<<7 | week<<14 | week<<21 | week<<28) << 1
	if c.both {
		matching &= c.days
	} else {
		matching |= c.days
	}
	return matching & upTo(lengthOf(year, month))
}

// lengthOf returns the number of days of a month.
func lengthOf(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// upTo returns the set of 0 to n.
func upTo(n int) uint64 { return 1<<(n+1) - 1 }

func lowest(set uint64) int  { return bits.TrailingZeros64(set) }
func highest(set uint64) int { return bits.Len64(set) - 1 }

func (c *calendar) next(reading int64) int64 {
	day, second := split(reading + minuteSeconds - 1)
	year, month, date := dateOf(day)
	days := c.daysOf(year, month)
	if days>>date&1 == 1 {
		if minute, ok := c.minuteFrom(int(second / minuteSeconds)); ok {
			return day*daySeconds + int64(minute)*minuteSeconds
		}
	}
	days &^= upTo(date)
	for days == 0 {
		if month++; month > time.December {
			year, month = year+1, time.January
		}
		if year > lastYear {
			return farOff
		}
		days = c.daysOf(year, month)
	}
	return readingOf(year, month, lowest(days), lowest(c.hours)*60+lowest(c.minutes))
}

func (c *calendar) last(reading int64) int64 {
	day, second := split(reading)
	year, month, date := dateOf(day)
	days := c.daysOf(year, month)
	if days>>date&1 == 1 {
		if minute, ok := c.minuteTo(int(second / minuteSeconds)); ok {
			return day*daySeconds + int64(minute)*minuteSeconds
		}
	}
	days &= upTo(date - 1)
	for days == 0 {
		if month--; month < time.January {
			year, month = year-1, time.December
		}
		if year < firstYear {
			return -farOff
		}
		days = c.daysOf(year, month)
	}
	return readingOf(year, month, highest(days), highest(c.hours)*60+highest(c.minutes))
}

// minuteFrom returns the first matching minute of a day at or after one.
func (c *calendar) minuteFrom(minute int) (int, bool) {
	hour, minute := minute/60, minute%60
	if c.hours>>hour&1 == 1 {
		if rest := c.minutes >> minute << minute; rest != 0 {
			return hour*60 + lowest(rest), true
		}
	}
	rest := c.hours &^ upTo(hour)
	return lowest(rest)*60 + lowest(c.minutes), rest != 0
}

// minuteTo returns the last matching minute of a day at or before one.
func (c *calendar) minuteTo(minute int) (int, bool) {
	hour, minute := minute/60, minute%60
	if c.hours>>hour&1 == 1 {
		if rest := c.minutes & upTo(minute); rest != 0 {
			return hour*60 + highest(rest), true
		}
	}
	rest := c.hours & upTo(hour) &^ (1 << hour)
	return highest(rest)*60 + highest(c.minutes), rest != 0
}

// multiples is the pattern of @every, in seconds.
type multiples int64

func (m multiples) key() string { return fmt.Sprintf("every %d", int64(m)) }

func (m multiples) next(reading int64) int64 { return m.last(reading + int64(m) - 1) }

func (m multiples) last(reading int64) int64 {
	part := reading % int64(m)
	if part < 0 {
		part += int64(m)
	}
	return reading - part
}

// split returns the day of a reading, counted from 1970, and the second of that day.
func split(reading int64) (day, second int64) {
	start := multiples(daySeconds).last(reading)
	return start / daySeconds, reading - start
}

func dateOf(day int64) (int, time.Month, int) { return time.Unix(day*daySeconds, 0).UTC().Date() }

func readingOf(year int, month time.Month, date, minute int) int64 {
	return time.Date(year, month, date, 0, minute, 0, 0, time.UTC).Unix()
}
