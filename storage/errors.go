package storage

import "errors"

// Sentinels by which callers decide; the errors that wrap them say what, where,
// why and what to do next.
var (
	// ErrMissing: the file or directory is not there.
	ErrMissing = errors.New("storage: missing")
	// ErrCorrupt: size, hash or structure is not what was written.
	ErrCorrupt = errors.New("storage: corrupt")
	// ErrForeign: the files belong to another job.
	ErrForeign = errors.New("storage: belongs to another job")
	// ErrNewerFormat: written by a newer version of the program.
	ErrNewerFormat = errors.New("storage: newer format version")
	// ErrPublished: another content was published under this checkpoint's name.
	ErrPublished = errors.New("storage: published already")
	// ErrElsewhere: the directory is another one than the coordinator's, at the same path.
	ErrElsewhere = errors.New("not the folder that the coordinator of the job writes to")
	// ErrTooLarge: more than the storage kind can hold.
	ErrTooLarge = errors.New("storage: state too large")
)
