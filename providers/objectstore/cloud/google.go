package cloud

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"google.golang.org/api/option"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// GCSOptions say which bucket of Google Cloud Storage a Store uses, and how.
// Bucket and Credentials are required.
type GCSOptions struct {
	Bucket string
	// Prefix is put before all keys, with a slash between. Empty uses the
	// whole bucket. It has the bytes of keys, and at most MaxPrefix of them.
	Prefix string
	// Endpoint is https://host or http://host, perhaps with a port, of another
	// server that speaks Google's JSON and XML APIs. Empty is Google.
	Endpoint string
	// Credentials sign the requests. See DefaultGoogleCredentials,
	// GoogleServiceAccount, GoogleTokens and AnonymousGoogle.
	Credentials *GoogleCredentials
	Connection  Connection
}

const googleEndpoint = "https://storage.googleapis.com"

var googleBucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func (o GCSOptions) validate() error {
	if !googleBucketName.MatchString(o.Bucket) {
		return fmt.Errorf("%q is no name of a bucket", o.Bucket)
	}
	if o.Credentials == nil {
		return errors.New("no credentials are given")
	}
	return errors.Join(validPrefix(o.Prefix), o.Connection.validate())
}

// OpenGCS prepares a store in a bucket of Google Cloud Storage. It sends no
// request: what is wrong with the bucket or the credentials shows with the first
// call.
func OpenGCS(ctx context.Context, options GCSOptions) (*Store, error) {
	store, err := openGCS(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open bucket gs://%s: %w", options.Bucket, err)
	}
	return store, nil
}

func openGCS(ctx context.Context, o GCSOptions) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Connection = o.Connection.withDefaults()
	transport, err := newTransport(o.Connection)
	if err != nil {
		return nil, err
	}
	return connectGCS(ctx, o, transport)
}

func connectGCS(ctx context.Context, o GCSOptions, transport *http.Transport) (*Store, error) {
	if o.Endpoint == "" {
		o.Endpoint = googleEndpoint
	}
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	client, err := storage.NewClient(ctx,
		option.WithHTTPClient(newClient(&exchange{transport, o.Connection.patience(), o.Credentials.authorize})),
		option.WithEndpoint(endpoint.JoinPath("storage/v1/").String()),
		option.WithoutAuthentication(), // exchange does that, and asks nobody for default credentials
		storage.WithDisabledClientMetrics(),
	)
	if err != nil {
		return nil, err
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	bucket, err := gcsblob.OpenBucket(ctx, nil, o.Bucket, &gcsblob.Options{Client: client})
	if err != nil {
		return nil, err
	}
	return &Store{
		service:   &google{bucket: bucket, native: client.Bucket(o.Bucket)},
		transport: transport,
		place:     newPlace("gs://"+o.Bucket, o.Prefix, endpoint.Host),
	}, nil
}

// newClient follows no redirection: a store does not send any, and whoever does
// must not get what is signed for the store.
func newClient(exchange *exchange) *http.Client {
	return &http.Client{
		Transport:     exchange,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// google is a bucket of Google Cloud Storage. The number of a generation is the
// ETag of objects: Google's own changes with metadata too.
//
// All names are given to the SDK in hooks of gocloud, which would rewrite some
// that are keys, see the package comment.
type google struct {
	bucket *blob.Bucket
	native *storage.BucketHandle
}

// errHook says that gocloud does not use the SDK that we know.
var errHook = errors.New("gocloud.dev has other hooks than were expected")

// rename is a hook that makes gocloud use an object instead of the one that it
// named.
func rename(object *storage.ObjectHandle) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var handle **storage.ObjectHandle
		if !as(&handle) {
			return errHook
		}
		*handle = object
		return nil
	}
}

func (g *google) put(ctx context.Context, name string, content *upload, opts objectstore.PutOptions) (objectstore.Info, error) {
	object, err := g.conditional(name, opts)
	if err != nil {
		return objectstore.Info{}, err
	}
	ctx, cancel := context.WithCancel(withSize(ctx, content.size))
	defer cancel()
	var native *storage.Writer
	w, err := g.bucket.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType:  contentType,
		CacheControl: cacheControl,
		BufferSize:   -1, // one request, of which nothing is kept in memory
		BeforeWrite: func(as func(any) bool) error {
			if err := rename(object)(as); err != nil {
				return err
			}
			if !as(&native) {
				return errHook
			}
			native.CRC32C, native.SendCRC32C = binary.BigEndian.Uint32(content.sum), true
			return nil
		},
	})
	if err != nil {
		return objectstore.Info{}, err
	}
	if err := content.copyTo(w); err != nil {
		cancel() // before Close, which would store what there is
		return objectstore.Info{}, errors.Join(w.Close(), err)
	}
	if err := w.Close(); err != nil {
		return objectstore.Info{}, err
	}
	return googleInfo(native.Attrs()), nil
}

// conditional is the object with the conditions of a put.
func (g *google) conditional(name string, opts objectstore.PutOptions) (*storage.ObjectHandle, error) {
	object := g.native.Object(name)
	if opts.IfAbsent {
		return object.If(storage.Conditions{DoesNotExist: true}), nil
	}
	if opts.IfMatch == "" {
		return object, nil
	}
	generation, err := strconv.ParseInt(opts.IfMatch, 10, 64)
	if err != nil || generation <= 0 {
		return nil, errOtherVersion
	}
	return object.If(storage.Conditions{GenerationMatch: generation}), nil
}

func (g *google) get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if length == 0 {
		length = -1 // to the end
	}
	// What is stored compressed, by whomever, is not to be unpacked on the way.
	object := g.native.Object(name).ReadCompressed(true)
	return g.bucket.NewRangeReader(ctx, name, offset, length, &blob.ReaderOptions{BeforeRead: rename(object)})
}

// stat goes past gocloud, which has no hook for it.
func (g *google) stat(ctx context.Context, name string) (objectstore.Info, error) {
	attributes, err := g.native.Object(name).Attrs(ctx)
	if err != nil {
		return objectstore.Info{}, err
	}
	return googleInfo(attributes), nil
}

func (g *google) delete(ctx context.Context, name string) error {
	return g.bucket.DeleteWithOptions(ctx, name, &blob.DeleteOptions{BeforeDelete: rename(g.native.Object(name))})
}

func (g *google) pages(prefix, from string) (*blob.Bucket, *blob.ListOptions) {
	return g.bucket, &blob.ListOptions{BeforeList: func(as func(any) bool) error {
		var query *storage.Query
		if !as(&query) {
			return errHook
		}
		query.Prefix, query.StartOffset, query.Projection = prefix, from, storage.ProjectionNoACL
		return query.SetAttrSelection([]string{"Name", "Size", "Generation", "Updated"})
	}}
}

func (g *google) listed(page []*blob.ListObject) ([]objectstore.Info, error) {
	infos := make([]objectstore.Info, len(page))
	for i, object := range page {
		var attributes storage.ObjectAttrs
		if !object.As(&attributes) {
			return nil, errHook
		}
		infos[i] = googleInfo(&attributes)
	}
	// gocloud sorts each page by names that it has rewritten.
	slices.SortFunc(infos, func(a, b objectstore.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

func googleInfo(a *storage.ObjectAttrs) objectstore.Info {
	return objectstore.Info{Key: a.Name, Size: a.Size, ETag: strconv.FormatInt(a.Generation, 10), ModTime: a.Updated}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (g *google) sum() checksum { return crc32.New(castagnoli) }

// maxSize is 5 TiB, of an object in whatever way it is put.
func (g *google) maxSize() int64 { return 5 << 40 }
