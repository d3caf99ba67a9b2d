package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Get implements objectstore.Store. The reader goes on reading the object that
// it was opened on, whatever happens to the key.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	options, err := getOptions(key, r)
	if err != nil {
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: err}
	}
	c := &call{}
	var body io.ReadCloser
	err = s.do(ctx, opGet, key, c, func(ctx context.Context) (err error) {
		body, _, _, err = s.core.GetObject(ctx, s.bucket, s.root+key, options)
		return err
	})
	if r.Offset == 0 && errors.Is(err, objectstore.ErrRange) {
		return s.empty(ctx, key, err)
	}
	if err != nil {
		return nil, err
	}
	length, err := answered(c, r)
	if err != nil {
		body.Close()
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: s.about(nil, key, err.Error(), "")}
	}
	return &reader{ctx: ctx, store: s, key: key, call: c, body: body, length: length, left: length}, nil
}

// empty is the reader of an object that has no first byte, if it is as empty as
// it must be for that.
func (s *Store) empty(ctx context.Context, key string, rangeErr error) (io.ReadCloser, error) {
	info, err := s.head(ctx, key)
	switch {
	case err != nil:
		return nil, &objectstore.Error{Op: opGet, Key: key, Err: errors.Unwrap(err)}
	case info.Size > 0:
		return nil, rangeErr
	}
	return http.NoBody, nil
}

func getOptions(key string, r objectstore.Range) (minio.GetObjectOptions, error) {
	var options minio.GetObjectOptions
	if err := objectstore.ValidKey(key); err != nil {
		return options, err
	}
	if _, err := r.Within(math.MaxInt64); err != nil {
		return options, err // negative
	}
	switch {
	case r.Length > 0 && r.Length <= math.MaxInt64-r.Offset:
		options.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	case r.Offset > 0:
		options.Set("Range", fmt.Sprintf("bytes=%d-", r.Offset))
	}
	return options, nil
}

// answered returns how many bytes of the answer's body are those asked for. It
// fails if the answer is not of the range.
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
	if err != nil || first != within.Offset || last-first+1 != within.Length || size != within.Length {
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
	if err == nil || r.left == 0 {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	r.call.failure = fmt.Errorf("%w after %d of %d bytes", err, r.length-r.left, r.length)
	return n, r.store.failed(r.ctx, opGet, r.key, r.call, r.call.failure)
}

// Close gives up what was not read; the connection is used again only if
// nothing is left.
func (r *reader) Close() error {
	r.body.Close() // an error of what nobody wants is nobody's
	return nil
}
