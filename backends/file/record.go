package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/ownership"
)

// load reads a job's record; the zero record if there is none.
//
// A record that has a tick or a key is on disk before it takes the place of the former, so a crash of the
// machine can only leave an empty file where neither was: that is a lost record, and the clock and the lock
// file guard its token. Anything else that cannot be read stops the job until somebody has looked.
func (p paths) load() (backends.Record, error) {
	var r backends.Record
	text, err := p.read(p.record)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, permanent(err)
	}
	if len(text) == 0 {
		return r, nil
	}
	if r, err = backends.ParseRecord(text); err != nil {
		return backends.Record{}, damaged(p.record, err)
	}
	if r.Job != p.job {
		return r, backends.Misconfigured("somebody has copied or renamed it: restore it, or remove it",
			"the record %s is of job %q, not of %q", p.record, r.Job, p.job)
	}
	if b, ok := p.readBeat(); ok && b.Token == r.Token && b.Beat >= r.Beat {
		r.TTL, r.Until, r.Beat = b.TTL, b.Until, b.Beat
	}
	return r, nil
}

// has says whether there is a file, or it cannot be told.
func (p paths) has(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// save writes what has changed. What every renewal changes alone is written in place; all else replaces the
// record as a whole. Only who has the turn may call it.
func (p paths) save(was, is backends.Record) error {
	is.Job = p.job
	plain := is
	plain.TTL, plain.Until, plain.Beat = was.TTL, was.Until, was.Beat
	if was.Token != 0 && reflect.DeepEqual(plain, was) {
		return p.writeBeat(beatOf(is))
	}
	return p.replace(is, !reflect.DeepEqual(is.Tick, was.Tick) || !reflect.DeepEqual(is.Once, was.Once))
}

// replace writes a new record in the place of the old one, which stays whole until then.
func (p paths) replace(r backends.Record, durable bool) (err error) {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.Remove(p.tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return permanent(err)
	}
	f, err := p.open(p.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL) // never through another's link
	if err != nil {
		return permanent(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(p.tmp)
		}
	}()
	_, err = f.Write(append(text, '\n'))
	if err == nil && (durable || r.Tick.Tick != 0 || len(r.Once) > 0) {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return full(err)
	}
	if err := os.Rename(p.tmp, p.record); err != nil {
		return permanent(err)
	}
	if durable {
		return ownership.SyncFolder(filepath.Dir(p.record))
	}
	return nil
}

// beat is the last renewal of a token. It is written in place, as renewals must work on a full disk too and
// must not put a synced record at risk; so it carries a sum, and one that does not match never was.
type beat struct {
	Token, Beat, Until, TTL int64
}

// fits says whether a record may have these numbers.
func (b beat) fits() bool {
	r := backends.Record{Token: b.Token, Beat: b.Beat, Until: b.Until, TTL: b.TTL}
	return r.Check() == nil
}

const (
	beatFormat = "%d %d %d %d"
	beatLength = 96
)

func beatOf(r backends.Record) beat { return beat{r.Token, r.Beat, r.Until, r.TTL} }

func (p paths) writeBeat(b beat) error {
	f, err := p.open(p.beat, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(beatFormat, b.Token, b.Beat, b.Until, b.TTL)
	text = fmt.Sprintf("%s %08x", text, crc32.ChecksumIEEE([]byte(text)))
	_, err = f.WriteAt(fmt.Appendf(nil, "%-*s\n", beatLength-1, text), 0)
	return full(errors.Join(err, f.Close()))
}

// readBeat reads the last renewal. The holder may be writing it: a sum that does not match is looked at again.
func (p paths) readBeat() (beat, bool) {
	f, err := p.open(p.beat, os.O_RDONLY)
	if err != nil {
		return beat{}, false
	}
	defer f.Close()
	line := make([]byte, beatLength)
	for range 3 {
		n, _ := f.ReadAt(line, 0)
		if b, ok := parseBeat(string(line[:n])); ok {
			return b, true
		}
	}
	return beat{}, false
}

func parseBeat(line string) (beat, bool) {
	text := strings.TrimRight(line, " \n")
	i := strings.LastIndexByte(text, ' ')
	if i < 0 || fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text[:i]))) != text[i+1:] {
		return beat{}, false
	}
	var b beat
	_, err := fmt.Sscanf(text[:i], beatFormat, &b.Token, &b.Beat, &b.Until, &b.TTL)
	return b, err == nil && b.fits()
}

// jobOf returns the name of the job that a record file belongs to, "" for a record that was lost.
func (s *store) jobOf(file string) (string, error) {
	path := filepath.Join(s.dir, file)
	text, err := s.trusts.read(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return "", nil
	}
	if err != nil {
		return "", permanent(err)
	}
	r, err := backends.ParseRecord(text)
	if err != nil {
		return "", damaged(path, err)
	}
	return r.Job, nil
}
