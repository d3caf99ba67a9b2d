package fetch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// ErrNotIndexed says that the locator knows no copy of a blob.
var ErrNotIndexed = errors.New("blob is not in the index")

// Error says which blob could not be had, and why. It wraps ErrNotIndexed,
// objectstore.ErrNotExist if the pack is gone, seal.ErrDamaged if its bytes are
// not what was written, or another error of the store. If several copies
// failed, Err joins the causes and Pack and Offset are those of the first.
type Error struct {
	Kind   blob.Kind
	ID     blob.ID
	Pack   packfile.Name // zero if no copy is known
	Offset uint32        // of the sealed frame in the pack, bytes
	Err    error
}

func (e *Error) Error() string {
	if e.Pack == (packfile.Name{}) {
		return fmt.Sprintf("read %v blob %v: %v", e.Kind, e.ID, e.Err)
	}
	return fmt.Sprintf("read %v blob %v in pack %v at %d: %v", e.Kind, e.ID, e.Pack, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes a blob that cannot be had any more damage, also if its pack is gone or
// no pack is known to hold it.
func (e *Error) Is(target error) bool { return target == packfile.ErrDamaged && Lost(e) }

// Lost tells whether err says that a blob cannot be had from this repository
// any more: no copy of it is indexed, or each is damaged or gone. Other errors
// are of the store or the caller, and trying again may help.
func Lost(err error) bool {
	var own *Error
	if errors.As(err, &own) {
		err = own.Err
	}
	if copies, ok := err.(failedCopies); ok {
		return !slices.ContainsFunc(copies, func(cause error) bool { return !Lost(cause) })
	}
	return errors.Is(err, ErrNotIndexed) || errors.Is(err, objectstore.ErrNotExist) || errors.Is(err, packfile.ErrDamaged)
}

// failedCopies are the causes of several copies.
type failedCopies []error

func (f failedCopies) Error() string {
	return fmt.Sprintf("%d copies failed: %v", len(f), errors.Join(f...))
}

// Unwrap returns the causes.
func (f failedCopies) Unwrap() []error { return f }
