package engine

import (
	"errors"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Errors that callers tell apart with errors.Is. They are wrapped in *Error.
var (
	// ErrNoRepository says that there is no repository at the place.
	ErrNoRepository = errors.New("no snapctl repository here")
	// ErrConfigGone says, beside ErrNoRepository, that there was one.
	ErrConfigGone = errors.New("packs of one are there, but not its config")
	// ErrExists says that Init found a repository.
	ErrExists = errors.New("a repository exists already")
	// ErrNotFound says that a snapshot, or a path in one, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous says that a prefix names more than one snapshot.
	ErrAmbiguous = errors.New("prefix is ambiguous")
	// ErrPartial says that the operation is done except for what its result names.
	ErrPartial = errors.New("done but incomplete")
	// ErrBusy says that another process holds what is needed.
	ErrBusy = errors.New("in use by another process")
	// ErrRetry says that what the attempt relied on was taken by a collection, is not
	// there since the store was put back, or could not be published; starting it over
	// will do.
	ErrRetry = errors.New("the repository changed meanwhile, try again")
	// ErrNotFamily says that two repositories name blobs in different ways.
	ErrNotFamily = errors.New("repositories are not of one family: only one made by init --like can exchange snapshots")
	// ErrWrongKey says that no given credential opens the repository.
	ErrWrongKey = keyring.ErrWrongKey
	// ErrNewerVersion says that a newer program wrote the repository.
	ErrNewerVersion = config.ErrNewerVersion
	// ErrDamaged says that stored bytes are not what was written, or are gone.
	ErrDamaged = wire.ErrDamaged
	// ErrCondemnedUnknown says that a list of a collection is damaged, and that the
	// next collection mends that.
	ErrCondemnedUnknown = commit.ErrCondemnedUnknown
	// ErrNoEntry says that a snapshot has no such path.
	ErrNoEntry = manifest.ErrNotFound
)

// Error is the error type of every operation: what was done, to what, and why
// it failed.
type Error struct {
	Op     string // "open", "snapshot", "restore", ...
	Object string // a path, a snapshot id, an object key
	Err    error
}

func (e *Error) Error() string {
	if e.Object == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Object + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failed wraps err for the caller of an operation, once.
func failed(op, object string, err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &Error{Op: op, Object: object, Err: err}
}
