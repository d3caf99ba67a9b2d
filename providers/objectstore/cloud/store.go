package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"gocloud.dev/blob"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// The operations, as objectstore.Error names them.
const (
	opPut    = "put"
	opGet    = "get"
	opStat   = "stat"
	opList   = "list"
	opDelete = "delete"
)

// Store is an objectstore.Store in a bucket of Google, or in a container of
// Azure. It is safe for concurrent use.
type Store struct {
	service   service
	transport *http.Transport
	place     place
}

// service is what the two kinds of stores do differently. Names are those in
// the bucket, with the prefix. Each method is one request, but for list. Errors
// are those of the SDKs: what matters of an answer is in the call, see exchange.
type service interface {
	put(ctx context.Context, name string, content *upload, opts objectstore.PutOptions) (objectstore.Info, error)
	// get reads length bytes from offset; 0 is to the end.
	get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	stat(ctx context.Context, name string) (objectstore.Info, error)
	delete(ctx context.Context, name string) error
	// pages is how gocloud lists names with the prefix, from the one on; empty
	// is from the first.
	pages(prefix, from string) (*blob.Bucket, *blob.ListOptions)
	// listed describes the objects of a page, in the order of their names.
	listed(page []*blob.ListObject) ([]objectstore.Info, error)
	// read finds out what an answer that is an error means to the operation.
	read(op string, c *call) answer
	// sum is the checksum that goes with an upload.
	sum() checksum
	// maxSize is the largest body of a put in bytes.
	maxSize() int64
}

// place is where the objects of a store are.
type place struct {
	bucket string // for people: gs://bucket or azblob://account/container
	root   string // before every key: the prefix with a slash, or empty
	host   string // for people
}

func newPlace(bucket, prefix, host string) place {
	p := place{bucket: bucket, host: host}
	if prefix != "" {
		p.root = prefix + "/"
	}
	return p
}

// Close closes idle connections. Calls and readers in progress go on.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// do carries out one call. It returns the error of the whole call.
func (s *Store) do(ctx context.Context, op, key string, c *call, request func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if err := request(withCall(ctx, c)); err != nil {
		return s.failed(ctx, op, key, c, err)
	}
	return nil
}

// Put implements objectstore.Store. Azure limits bodies to MaxAzureSize.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	content, err := s.prepare(ctx, key, body, opts)
	if err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: opPut, Key: key, Err: err}
	}
	var info objectstore.Info
	err = s.do(ctx, opPut, key, &call{}, func(ctx context.Context) (err error) {
		info, err = s.service.put(ctx, s.place.root+key, content, opts)
		return err
	})
	bodyErr := content.finish()
	switch {
	case err == nil:
		info.Key, info.Size = key, body.Size()
		return info, nil
	case bodyErr != nil:
		err = &objectstore.Error{Op: opPut, Key: key, Err: bodyErr}
	case opts.IfAbsent && errors.Is(err, objectstore.ErrPrecondition):
		err = &objectstore.Error{Op: opPut, Key: key, Err: s.about(objectstore.ErrExist, key, "", "")}
	case opts.IfMatch != "" && errors.Is(err, objectstore.ErrNotExist):
		err = &objectstore.Error{Op: opPut, Key: key, Err: s.about(objectstore.ErrPrecondition, key, "it is absent", "")}
	}
	return objectstore.Info{}, err
}

// prepare reads the body once, for its checksum.
func (s *Store) prepare(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (*upload, error) {
	if err := errors.Join(ctx.Err(), objectstore.ValidKey(key), opts.Validate()); err != nil {
		return nil, err
	}
	if most := s.service.maxSize(); body.Size() > most {
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLarge, body.Size(), most)
	}
	return newUpload(ctx, body, s.service.sum())
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	if err := objectstore.ValidKey(key); err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: opStat, Key: key, Err: err}
	}
	var info objectstore.Info
	err := s.do(ctx, opStat, key, &call{}, func(ctx context.Context) (err error) {
		info, err = s.service.stat(ctx, s.place.root+key)
		return err
	})
	if err != nil {
		return objectstore.Info{}, err
	}
	info.Key = key
	return info, nil
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := objectstore.ValidKey(key); err != nil {
		return &objectstore.Error{Op: opDelete, Key: key, Err: err}
	}
	err := s.do(ctx, opDelete, key, &call{}, func(ctx context.Context) error {
		return s.service.delete(ctx, s.place.root+key)
	})
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil
	}
	return err
}

// What goes with every object. No cache on the way may keep it: readers see what
// was put last.
const (
	contentType  = "application/octet-stream"
	cacheControl = "no-store"
)
