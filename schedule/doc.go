// Package schedule turns schedules into ticks: the instants at which a job is due. A tick is computed from the
// expression and the zone alone, so every host finds the same one.
//
// # Expressions
//
// Five fields as in crontab(5): minute (0-59), hour (0-23), day of month (1-31), month (1-12 or JAN-DEC), day of
// week (0-7 or SUN-SAT, 0 and 7 are Sunday). A field is *, a number, a range a-b, a range with a step (*/15,
// 8-18/2), or a list of these. @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually stand for
// their five fields, and "CRON_TZ=Europe/Berlin 0 2 * * *" names the zone of one expression. Several expressions
// are a union.
//
// If day of month or day of week begins with *, a day must match both; otherwise either is enough. That is
// cron(8)'s rule: "0 0 */2 * FRI" is a Friday with an odd number, "0 0 1,15 * FRI" the 1st, the 15th, and Fridays.
//
// What fires never or other than it looks is refused: 30 February, */61, a step without a range (5/15), empty
// lists, seconds, TZ= (in a crontab that is the zone of the command), @reboot.
//
// # Daylight saving
//
// As cron(8) of Debian has it. A job is fixed when neither its minute nor its hour field begins with *.
//
//	                          fixed: 30 2 * * *             not fixed: 30 * * * *
//	the clock goes forward    runs right after the gap,     what the clock does not
//	by up to 3 hours          once for all of the gap       show does not run
//	the clock goes back       runs the first time only      runs each time the clock
//	by up to 3 hours                                        shows it
//	by more than 3 hours      like a job that is not fixed
//
// So 02:30 in New York runs at 03:00 on the day in March when there is no 02:30, and once, not twice, in November.
// "Right after" is the instant of the change. More than 3 hours is a country that crosses the date line: Apia had
// no 30 December 2011, and no job of that day ran.
//
// # Every
//
// "@every D" means the multiples of D, on every host, whenever it started. D is written like 90s, 1h30m or 2d, or as a
// number of seconds. Where D divides a day they are counted on the local clock from midnight: 24h is 0 0 * * *, 6h is
// 0 0,6,12,18 * * *, 15m is 0,15,30,45 of each hour; up to an hour they follow real time across a change of the clock,
// longer ones are fixed. Any other D (7h, 5d) is counted in real time from 1970-01-01 00:00 UTC, whatever the zone.
//
// # Where this differs from Debian's cron
//
//   - Several times of a gap, and the time at its end, are one run; cron runs the job once for each.
//   - A gap of exactly 3 hours (Casey) counts as a gap; cron, one minute off, takes it for a corrected clock.
//   - cron catches up changes of the clock of less than 5 minutes minute by minute, for all jobs. No zone has had
//     one since 1970.
//   - cron reads 5/15 as 5, day 0 and month 0 as nothing, and */90 as 0, without a word. Here they are errors.
//   - Lists and ranges of names (MON-FRI) are allowed. CRON_TZ comes from cronie.
//
// # Zones
//
// Rules of zones come from the system's tzdata if it has them, else from the copy in the binary (package
// time/tzdata). The fingerprint of a schedule has the zone's name, not its rules: hosts whose tzdata differ compute
// different ticks while the two disagree.
//
// A Schedule is immutable: all of its methods may be called concurrently.
package schedule
