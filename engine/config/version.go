package config

import (
	"errors"
	"fmt"
)

// Version is the newest format version that this program reads and writes.
const Version = 0

// ErrNewerVersion says that an object was written by a newer program.
var ErrNewerVersion = errors.New("format is newer than this program")

// VersionError says which version an object has. It is ErrNewerVersion.
type VersionError struct {
	Object  string // what has the version: "repository" or "key ..."
	Version int    // the version it has
	Known   int    // the newest version that this program knows
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program knows up to %d: update snapctl", e.Object, e.Version, e.Known)
}

// Unwrap returns ErrNewerVersion.
func (e *VersionError) Unwrap() error { return ErrNewerVersion }
