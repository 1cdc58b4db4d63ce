package schedule

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	// A copy of the zones, for hosts without tzdata: time.LoadLocation prefers the system's. It makes a binary
	// about 400 kB larger; the start is no slower that can be measured.
	_ "time/tzdata"
)

const zoneHint = "name one of the IANA database, such as Europe/Berlin or UTC"

// HostZone returns the name of the host's time zone: of the variable TZ, else where the link /etc/localtime points
// (localtime(5); UTC if there is no such file). A host whose TZ has rules instead of a name (CET-1CEST), or whose
// /etc/localtime is a copy, has no named zone: that is an *Error.
func HostZone() (string, error) {
	tz, isSet := os.LookupEnv("TZ")
	return hostZone(tz, isSet, "/etc/localtime")
}

func hostZone(tz string, isSet bool, localtime string) (string, error) {
	tz = strings.TrimPrefix(tz, ":")
	switch {
	case isSet && tz == "":
		return "UTC", nil // tzset(3)
	case isSet && !strings.HasPrefix(tz, "/"):
		return canonical(tz), nil
	case isSet:
		localtime = tz
	}
	unnamed := &Error{Why: "this host's time zone has no name, " + quote(localtime) + " is not a link to one", Hint: zoneHint}
	for range 8 { // links to links
		if name, ok := nameIn(localtime); ok {
			return canonical(name), nil
		}
		target, err := os.Readlink(localtime)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isSet:
			return "UTC", nil
		case err != nil:
			return "", unnamed
		case !filepath.IsAbs(target):
			target = filepath.Join(filepath.Dir(localtime), target)
		}
		localtime = target
	}
	return "", unnamed
}

// nameIn returns the zone of a file of the database, wherever that is installed.
func nameIn(file string) (string, bool) {
	const database = "/zoneinfo/"
	at := strings.LastIndex(file, database)
	if at < 0 {
		return "", false
	}
	name := strings.TrimPrefix(file[at+len(database):], "posix/")
	return name, name != "" && name != "localtime"
}

// canonical has one name for UTC, which distributions spell differently.
func canonical(name string) string {
	switch name {
	case "Etc/UTC", "Etc/UCT", "UCT", "Etc/Zulu", "Zulu", "Etc/Universal", "Universal":
		return "UTC"
	}
	return name
}

// zones loads a zone when it is needed: its name is that of the host if it has none.
type zones struct {
	expr   string // whose zone it is, for errors
	name   string
	loaded *time.Location
}

func (z *zones) get() (*time.Location, error) {
	if z.loaded != nil {
		return z.loaded, nil
	}
	name, whose := canonical(z.name), ""
	if name == "" {
		whose = " (this host's)"
		var err error
		if name, err = HostZone(); err != nil {
			return nil, err
		}
	}
	switch name {
	case "Local", "localtime", "posixrules": // another zone on each host
		return nil, &Error{Expr: z.expr, Why: "time zone " + quote(name) + " is no name of a zone", Hint: zoneHint}
	}
	loaded, err := time.LoadLocation(name)
	if err != nil || strings.HasPrefix(name, "right/") { // which counts leap seconds
		return nil, &Error{Expr: z.expr, Why: "unknown time zone " + quote(name) + whose, Hint: zoneHint}
	}
	z.loaded = loaded
	return loaded, nil
}
