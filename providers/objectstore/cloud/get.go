package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Get implements objectstore.Store. The reader goes on reading the object that
// it was opened on, whatever happens to the key.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if err := validGet(key, r); err != nil {
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: err}
	}
	reader, err := s.open(ctx, key, r)
	for doubts := 0; errors.Is(err, errStrange404) && doubts < maxDoubts; doubts++ {
		if _, err := s.Stat(ctx, key); err != nil {
			return nil, &objectstore.Error{Op: opGet, Key: key, Err: errors.Unwrap(err)}
		}
		reader, err = s.open(ctx, key, r) // it was put in between
	}
	if r.Offset == 0 && errors.Is(err, objectstore.ErrRange) {
		return s.empty(ctx, key, err)
	}
	return reader, err
}

// maxDoubts is how often an answer is doubted that an object is not there, and
// that does not look like the store's: a server may say that of attributes in
// the words of the store, and of downloads in no words at all.
const maxDoubts = 3

// open makes one request.
func (s *Store) open(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	c := &call{}
	var body io.ReadCloser
	err := s.do(ctx, opGet, key, c, func(ctx context.Context) (err error) {
		body, err = s.service.get(ctx, s.place.root+key, r.Offset, bounded(r))
		return err
	})
	if err != nil {
		return nil, err
	}
	length, err := answered(c, r)
	if err != nil {
		body.Close()
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: s.wrongRange(key, err)}
	}
	return &reader{ctx: ctx, store: s, key: key, call: c, body: body, length: length, left: length}, nil
}

func (s *Store) wrongRange(key string, err error) error {
	if errors.Is(err, objectstore.ErrRange) {
		return s.about(objectstore.ErrRange, key, "", "")
	}
	return s.about(nil, key, err.Error(), "")
}

func validGet(key string, r objectstore.Range) error {
	if err := objectstore.ValidKey(key); err != nil {
		return err
	}
	_, err := r.Within(math.MaxInt64) // negative
	return err
}

// bounded is the length of the range, or 0 for one whose end no number has.
func bounded(r objectstore.Range) int64 {
	if r.Length > math.MaxInt64-r.Offset {
		return 0
	}
	return r.Length
}

// empty is the reader of an object that has no first byte, if it is as empty as
// it must be for that.
func (s *Store) empty(ctx context.Context, key string, rangeErr error) (io.ReadCloser, error) {
	info, err := s.Stat(ctx, key)
	switch {
	case err != nil:
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: errors.Unwrap(err)}
	case info.Size > 0:
		return nil, rangeErr
	}
	return http.NoBody, nil
}

// answered returns how many bytes of the answer's body are those asked for. It
// fails if the answer is not of the range, with objectstore.ErrRange if by its
// own words there is no such range.
func answered(c *call, r objectstore.Range) (int64, error) {
	size, err := strconv.ParseInt(c.header.Get("Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("answer has Content-Length %q", plain(c.header.Get("Content-Length")))
	}
	if c.status == http.StatusOK { // the whole object
		if r.Offset > 0 {
			return 0, errors.New("store ignores the range asked for")
		}
		within, err := r.Within(size)
		return within.Length, err
	}
	var first, last, whole int64
	contentRange := c.header.Get("Content-Range")
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &whole); err != nil {
		return 0, fmt.Errorf("answer has Content-Range %q", plain(contentRange))
	}
	within, err := r.Within(whole)
	if err != nil {
		return 0, err
	}
	if first != within.Offset || last-first+1 != within.Length || size != within.Length {
		return 0, fmt.Errorf("answer has %d bytes of range %q", size, plain(contentRange))
	}
	return size, nil
}

// reader reads exactly the bytes that an answer promised.
type reader struct {
	ctx    context.Context
	store  *Store
	key    string
	call   *call
	body   io.ReadCloser
	length int64
	left   int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if err := r.ctx.Err(); err != nil {
		return 0, &objectstore.Error{Op: opGet, Key: r.key, Err: err}
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if r.left == 0 {
		err = drained(r.body)
	}
	if err == nil {
		return n, nil
	}
	if err == io.EOF || r.call.failure == nil {
		r.call.failure = tooEarly(err)
	}
	r.call.failure = fmt.Errorf("%w after %d of %d bytes", r.call.failure, r.length-r.left, r.length)
	return n, r.store.failed(r.ctx, opGet, r.key, r.call, r.call.failure)
}

// drained reads a little beyond the end, where Google's reader compares its
// checksum.
func drained(body io.Reader) error {
	var beyond [1]byte
	n, err := body.Read(beyond[:])
	if n > 0 || err == io.EOF {
		return nil
	}
	return err
}

// Close gives up what was not read; the connection is used again only if
// nothing is left.
func (r *reader) Close() error {
	r.body.Close() // an error of what nobody wants is nobody's
	return nil
}
