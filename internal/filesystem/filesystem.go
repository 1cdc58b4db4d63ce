// Package filesystem says what is known of the file system of a directory.
package filesystem

// Volume is a file system.
type Volume struct {
	Known       bool   // this system says something about it
	Ends        string // when it forgets its files; "": not by itself
	Free        uint64 // bytes that this user may still write
	Files, Left uint64 // how many files it can have, and how many more; no files: it does not count them
}
