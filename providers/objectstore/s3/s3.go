package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

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

// Store is an objectstore.Store in a bucket. It is safe for concurrent use.
type Store struct {
	core        minio.Core
	transport   *http.Transport
	credentials *Credentials

	bucket string
	root   string // before every key: the prefix with a slash, or empty
	host   string // for people
	region string
	put    putting
}

// Open prepares a store. It sends no request: what is wrong with the bucket or
// the credentials shows with the first call.
func Open(options Options) (*Store, error) {
	store, err := open(options)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", options.Bucket, err)
	}
	return store, nil
}

func open(o Options) (*Store, error) {
	if o.Credentials == nil {
		return nil, errors.New("no credentials are given")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	transport, err := newTransport(o)
	if err != nil {
		return nil, err
	}
	return connect(o, transport)
}

func connect(o Options, transport *http.Transport) (*Store, error) {
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        credentials.New(&signer{credentials: o.Credentials}),
		Secure:       endpoint.Scheme == "https",
		Transport:    &exchange{transport, patience{o.Timeout, o.MinRate, o.StallTimeout}},
		Region:       o.Region,
		BucketLookup: lookups[o.Addressing],
		MaxRetries:   1,
	})
	if err != nil {
		return nil, err
	}
	// Amazon's own tools use these names only if they are told to, and not all
	// private networks know them.
	core.SetS3EnableDualstack(strings.Contains(endpoint.Host, ".dualstack."))
	s := &Store{
		core:        *core,
		transport:   transport,
		credentials: o.Credentials,
		bucket:      o.Bucket,
		host:        endpoint.Host,
		region:      o.Region,
		put:         newPutting(o, endpoint),
	}
	if o.Endpoint == amazon {
		s.host = "Amazon in " + o.Region
	}
	if o.Prefix != "" {
		s.root = o.Prefix + "/"
	}
	return s, nil
}

var lookups = map[Addressing]minio.BucketLookupType{
	AddressAuto:        minio.BucketLookupAuto,
	AddressPath:        minio.BucketLookupPath,
	AddressVirtualHost: minio.BucketLookupDNS,
}

// Close closes idle connections. Calls and readers in progress go on.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// do carries out one call: request is what minio-go does. It returns the error
// of the whole call.
func (s *Store) do(ctx context.Context, op, key string, c *call, request func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return &objectstore.Error{Op: op, Key: key, Err: err}
	}
	value, err := s.credentials.get(ctx)
	if err != nil {
		return &objectstore.Error{Op: op, Key: key, Err: s.noCredentials(ctx, key, err)}
	}
	err = request(withCall(ctx, c))
	if err == nil {
		return nil
	}
	if expiredCode(err) {
		s.credentials.rejected(ctx, value)
	}
	return s.failed(ctx, op, key, c, err)
}

func (s *Store) noCredentials(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.about(objectstore.ErrDenied, key, plain(err.Error()), "")
}

func expiredCode(err error) bool {
	var answer minio.ErrorResponse
	return errors.As(err, &answer) && hints[answer.Code] == hintExpired
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	if err := objectstore.ValidKey(key); err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: opStat, Key: key, Err: err}
	}
	info, err := s.head(ctx, key)
	if !errors.Is(err, objectstore.ErrNotExist) {
		return info, err
	}
	// An answer to HEAD has no body that says what is not there: the object,
	// the bucket, the account, or the store behind a proxy. One to GET has.
	reader, err := s.Get(ctx, key, objectstore.Range{Length: 1})
	if err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: opStat, Key: key, Err: errors.Unwrap(err)}
	}
	reader.Close()
	return s.head(ctx, key) // it was put in between
}

func (s *Store) head(ctx context.Context, key string) (objectstore.Info, error) {
	var info minio.ObjectInfo
	err := s.do(ctx, opStat, key, &call{}, func(ctx context.Context) (err error) {
		info, err = s.core.StatObject(ctx, s.bucket, s.root+key, minio.StatObjectOptions{})
		return err
	})
	if err != nil {
		return objectstore.Info{}, err
	}
	return objectstore.Info{Key: key, Size: info.Size, ETag: info.ETag, ModTime: info.LastModified}, nil
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := objectstore.ValidKey(key); err != nil {
		return &objectstore.Error{Op: opDelete, Key: key, Err: err}
	}
	c := &call{}
	err := s.do(ctx, opDelete, key, c, func(ctx context.Context) error {
		err := s.core.RemoveObject(ctx, s.bucket, s.root+key, minio.RemoveObjectOptions{})
		if c.status == http.StatusOK {
			return nil // minio-go takes nothing but 204
		}
		return err
	})
	if errors.Is(err, objectstore.ErrNotExist) { // what Google says
		return nil
	}
	return err
}
