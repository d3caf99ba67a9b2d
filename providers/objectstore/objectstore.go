// Package objectstore is the contract between snapctl and whatever keeps its
// objects: a directory, a bucket, a map in memory.
//
// A [Store] has five methods. Every implementation passes the one conformance
// suite in objectstoretest. The publish and collection protocols rest on four
// guarantees, which a store must give or say that it lacks them:
//
//   - read-after-write: a Get or Stat that starts after a Put was acknowledged
//     sees that object, or a later one under the same key;
//   - list-after-write: so does a List;
//   - list-after-key: keys come in ascending byte order and a listing can start
//     after any key;
//   - put-if-absent: of any number of racing Puts with IfAbsent to one absent
//     key, exactly one is acknowledged, and its body is what readers see.
//
// Most programs need only Store, [Body] (a *bytes.Reader is one) and the
// sentinel errors.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
)

// Store keeps objects under keys. All methods are safe for concurrent use and
// honour their context; none keeps a goroutine after it has returned, except
// that the reader returned by Get may hold resources until it is closed.
//
// Errors are *Error values; test them with errors.Is against the sentinels of
// this package.
type Store interface {
	// Put stores body under key, replacing what was there unless opts says
	// otherwise. When Put returns nil the object is durable, whole and visible
	// to everyone. When it returns an error the object may or may not be
	// there, but it is never visible in part. Body may be read more than once
	// and from several goroutines.
	//
	// With opts.IfAbsent, ErrExist says that an object was there already; after
	// a lost answer it may be the caller's own, so read it back and compare.
	// With opts.IfMatch, ErrPrecondition says that the current object has
	// another ETag, or is absent.
	Put(ctx context.Context, key string, body Body, opts PutOptions) (Info, error)

	// Get returns a reader of the bytes of the object in r. A range that
	// reaches past the end is cut at the end; one that starts past the last
	// byte is ErrRange, unless it starts at 0 (see Range.Within). ErrNotExist
	// if there is no object. The reader fails rather than end early: io.EOF
	// comes only after the last byte asked for.
	Get(ctx context.Context, key string, r Range) (io.ReadCloser, error)

	// Stat describes the object, or fails with ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys start with prefix and are greater
	// than after (byte order), in ascending order. An error is yielded once,
	// last. Objects put or deleted during the listing may or may not appear;
	// all others appear exactly once.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Delete removes the object. Deleting what is absent is not an error.
	Delete(ctx context.Context, key string) error
}

// Body is the content of an object to put: its size is known and any part of
// it can be read again, so that a retry starts from the first byte. A
// *bytes.Reader, a *strings.Reader and an *io.SectionReader are bodies.
type Body interface {
	io.ReaderAt
	Size() int64
}

// Unsent returns the body for who reads it without sending it, such as for a
// checksum. A store that meters what is sent has bodies with a method of this name.
func Unsent(body Body) Body {
	if metered, ok := body.(interface{ Unsent() Body }); ok {
		return metered.Unsent()
	}
	return body
}

// PutOptions are the conditions of a Put. The zero value puts unconditionally.
type PutOptions struct {
	// IfAbsent stores the object only if the key is free.
	IfAbsent bool
	// IfMatch, if not empty, stores the object only if the current object
	// has this ETag. It excludes IfAbsent.
	IfMatch string
}

// Range is a part of an object in bytes. The zero Range is the whole object.
type Range struct {
	Offset int64 // first byte, from the start of the object; not negative
	Length int64 // number of bytes; 0 means to the end
}

// Info describes a stored object.
type Info struct {
	Key     string
	Size    int64     // bytes
	ETag    string    // changes whenever the object does; opaque; may be empty in a listing
	ModTime time.Time // by the store's clock; for people, never for decisions
}

// Errors that callers tell apart. A store wraps them in *Error.
var (
	// ErrNotExist says that there is no object under the key.
	ErrNotExist = errors.New("object does not exist")
	// ErrExist says that a put-if-absent found an object.
	ErrExist = errors.New("object exists already")
	// ErrPrecondition says that a put-if-match found another object or none.
	ErrPrecondition = errors.New("object was changed by another writer")
	// ErrRange says that a range starts behind the end of the object.
	ErrRange = errors.New("range starts behind the end of the object")
	// ErrThrottled says that the store asks for fewer requests: the same one may
	// succeed later. See RetryAfter.
	ErrThrottled = errors.New("store asks to slow down")
	// ErrUnavailable says that the request did not get through: a connection or
	// a server failed. The same request may succeed when it is made again.
	ErrUnavailable = errors.New("store did not answer as it should")
	// ErrDenied says that the credentials do not allow the request.
	ErrDenied = errors.New("access denied by the store")
	// ErrNoSpace says that the store is full or a quota is reached.
	ErrNoSpace = errors.New("no space left in the store")
	// ErrInvalidKey says that a key breaks the rules of ValidKey.
	ErrInvalidKey = errors.New("invalid object key")
)

// Error is the error type of every Store: which operation on which object
// failed, and why.
type Error struct {
	Op  string // "put", "get", "stat", "list" or "delete"
	Key string // the object's key, or the prefix of a listing
	Err error
}

func (e *Error) Error() string { return e.Op + " " + e.Key + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wait is an error of a store that said how long to wait before the request is
// made again.
type Wait struct {
	For time.Duration // not negative
	Err error
}

func (w *Wait) Error() string { return w.Err.Error() }

// Unwrap returns the cause.
func (w *Wait) Unwrap() error { return w.Err }

// RetryAfter is how long the store asked to wait; 0 if it did not ask.
func RetryAfter(err error) time.Duration {
	var wait *Wait
	if errors.As(err, &wait) {
		return wait.For
	}
	return 0
}

// MaxKeyLen is the longest key in bytes.
const MaxKeyLen = 512

// maxComponentLen is NAME_MAX of every common file system.
const maxComponentLen = 255

// ValidKey checks a key: one or more components joined by single slashes, each
// of ASCII letters, digits, '.', '_' and '-', none of them "." or "..", none
// starting with '.', none longer than 255 bytes (the longest file name), and
// all together not longer than MaxKeyLen. Every store accepts exactly these
// keys, so that a repository can be copied from any store to any other. The
// one restriction that ValidKey cannot see: a store may refuse to hold an
// object "a" next to an object "a/b", as a directory must.
func ValidKey(key string) error {
	if key == "" || len(key) > MaxKeyLen {
		return fmt.Errorf("%w: %d bytes long", ErrInvalidKey, len(key))
	}
	for component := range strings.SplitSeq(key, "/") {
		if component == "" || component[0] == '.' || len(component) > maxComponentLen {
			return fmt.Errorf("%w: %q", ErrInvalidKey, key)
		}
		for i := range len(component) {
			if !keyByte(component[i]) {
				return fmt.Errorf("%w: %q", ErrInvalidKey, key)
			}
		}
	}
	return nil
}

func keyByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '-'
}

// ReadAll reads a whole object into memory. An object larger than limit bytes
// is an error before it is read.
func ReadAll(ctx context.Context, s Store, key string, limit int64) ([]byte, error) {
	return read(ctx, s, key, Range{}, limit)
}

// ReadRange reads exactly length bytes from offset; an object that ends
// earlier is io.ErrUnexpectedEOF. Length must be greater than 0.
func ReadRange(ctx context.Context, s Store, key string, offset, length int64) ([]byte, error) {
	data, err := read(ctx, s, key, Range{Offset: offset, Length: length}, length)
	if err == nil && int64(len(data)) != length {
		err = &Error{Op: "get", Key: key, Err: fmt.Errorf("%w: %d of %d bytes at offset %d", io.ErrUnexpectedEOF, len(data), length, offset)}
	}
	return data, err
}

func read(ctx context.Context, s Store, key string, r Range, limit int64) (data []byte, err error) {
	rc, err := s.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := rc.Close(); err == nil && cerr != nil {
			err = &Error{Op: "get", Key: key, Err: cerr}
		}
	}()
	if r.Length > 0 {
		data = make([]byte, 0, r.Length+1) // one more: ReadAll-style growth never triggers
	}
	data, err = appendAll(data, io.LimitReader(rc, limit+1))
	if err != nil {
		return nil, inGet(key, err)
	}
	if int64(len(data)) > limit {
		return nil, &Error{Op: "get", Key: key, Err: fmt.Errorf("object is larger than the limit of %d bytes", limit)}
	}
	return data, nil
}

// inGet is a failure to read the object, which names it already if the store's reader
// failed.
func inGet(key string, err error) error {
	var stored *Error
	if errors.As(err, &stored) && stored.Op == "get" && stored.Key == key {
		return err
	}
	return &Error{Op: "get", Key: key, Err: err}
}

func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) { // double, from 4 KiB: most objects read whole are small
			b = slices.Grow(b, max(4<<10, len(b)))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}
