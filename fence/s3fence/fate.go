package s3fence

import "github.com/leaderrun/leaderrun/fence"

// fate is what has become of a write of the pointer that was not answered with a success, as far as the pointer tells.
type fate int

const (
	mayCome     fate = iota // the pointer is still the one that it was to replace, so it may be under way
	never                   // it was not carried out, and cannot be any more
	done                    // it was carried out
	mayHaveCome             // others have written since, so often that the pointer does not tell; it cannot come any more
)

// fateOf judges a write of a run by what it was to replace and by what was found after it. key is that of the data that it names, which
// no other write does; "": it only raises the fence.
//
// Pointers follow each other one by one, and no ETag comes again. So when another one is found, the write came then or never will.
// Each names the data before, and so tells of the last two that were written.
func fateOf(seen, found state, r fence.Run, key string) fate {
	p := found.pointer
	switch {
	case found.is(seen):
		return mayCome
	case key == "" && p.Token == r.Token:
		return done // by whom of the run does not matter: what was sent before cannot come any more
	case key == "": // a higher one than ours says nothing of it, but it is not needed any more
		return never
	case p.Data == key || p.Previous == key:
		return done
	case found.exists && (p.Data == seen.pointer.Data || p.Previous == seen.pointer.Data):
		return never // not more than once was data written since, and it was not ours
	}
	return mayHaveCome
}
