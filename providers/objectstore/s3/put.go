package s3

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// MaxSize is the largest body of a Put in bytes: what S3 takes in one request.
const MaxSize = 5 << 30

// putting is how a Store puts objects.
type putting struct {
	class      string
	encryption encrypt.ServerSide
	md5        bool // a checksum that every store knows, instead of CRC32C
	signBody   bool // nothing else protects it on the way
}

func newPutting(o Options, endpoint *url.URL) putting {
	p := putting{
		class:    o.StorageClass,
		md5:      o.Checksum == ChecksumMD5 || o.Checksum == ChecksumAuto && s3utils.IsGoogleEndpoint(*endpoint),
		signBody: endpoint.Scheme == "http",
	}
	switch o.Encryption {
	case EncryptAES256:
		p.encryption = encrypt.NewSSE()
	case EncryptKMS:
		p.encryption, _ = encrypt.NewSSEKMS(o.KMSKey, nil) // fails only for a context that is no JSON
	}
	return p
}

// Put implements objectstore.Store. Bodies are limited to MaxSize.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	request, err := s.newPut(ctx, key, body, opts)
	if err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: opPut, Key: key, Err: err}
	}
	c := &call{upload: &upload{body: body}}
	var answer minio.UploadInfo
	err = s.do(ctx, opPut, key, c, func(ctx context.Context) (err error) {
		answer, err = s.core.PutObject(ctx, s.bucket, s.root+key, c.upload.open(), body.Size(), request.md5, request.sha256, request.options)
		return err
	})
	bodyErr := c.upload.close()
	switch {
	case err == nil:
		return putInfo(key, body.Size(), answer.ETag, c.header), nil
	case bodyErr != nil:
		err = &objectstore.Error{Op: opPut, Key: key, Err: bodyErr}
	case opts.IfAbsent && errors.Is(err, objectstore.ErrPrecondition):
		err = &objectstore.Error{Op: opPut, Key: key, Err: s.about(objectstore.ErrExist, key, "", "")}
	case opts.IfMatch != "" && errors.Is(err, objectstore.ErrNotExist):
		err = &objectstore.Error{Op: opPut, Key: key, Err: s.about(objectstore.ErrPrecondition, key, "it is absent", "")}
	}
	return objectstore.Info{}, err
}

// putInfo takes the time of the answer for that of the object, as close as one
// can tell without another request.
func putInfo(key string, size int64, etag string, header http.Header) objectstore.Info {
	info := objectstore.Info{Key: key, Size: size, ETag: etag}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		info.ModTime = date
	}
	return info
}

// putRequest is what minio-go is told beside the body.
type putRequest struct {
	md5     string // base64, or empty
	sha256  string // hex, or empty
	options minio.PutObjectOptions
}

// newPut reads the body once, for its checksums, without sending it.
func (s *Store) newPut(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (putRequest, error) {
	if err := errors.Join(ctx.Err(), objectstore.ValidKey(key), opts.Validate()); err != nil {
		return putRequest{}, err
	}
	if body.Size() > MaxSize {
		return putRequest{}, fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLarge, body.Size(), int64(MaxSize))
	}
	request := putRequest{options: minio.PutObjectOptions{
		StorageClass:         s.put.class,
		ServerSideEncryption: s.put.encryption,
		DisableMultipart:     true,
		DisableContentSha256: true, // we give it, or none
	}}
	switch {
	case opts.IfAbsent:
		request.options.SetMatchETagExcept("*")
	case opts.IfMatch != "":
		request.options.SetMatchETag(opts.IfMatch)
	}
	return request, s.put.sum(ctx, objectstore.Unsent(body), &request)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum fills in the checksums.
func (p putting) sum(ctx context.Context, body objectstore.Body, request *putRequest) error {
	check := hash.Hash(crc32.New(castagnoli))
	if p.md5 {
		check = md5.New()
	}
	signed := io.Discard
	sha := sha256.New()
	if p.signBody {
		signed = sha
	}
	if err := readBody(ctx, io.MultiWriter(check, signed), body); err != nil {
		return err
	}
	encoded := base64.StdEncoding.EncodeToString(check.Sum(nil))
	if p.md5 {
		request.md5 = encoded
	} else {
		request.options.UserMetadata = map[string]string{minio.ChecksumCRC32C.Key(): encoded}
	}
	if p.signBody {
		request.sha256 = hex.EncodeToString(sha.Sum(nil))
	}
	return nil
}

// readBody copies the whole body, and fails if it is shorter than it says.
func readBody(ctx context.Context, to io.Writer, body objectstore.Body) error {
	size := body.Size()
	block := make([]byte, min(size, 256<<10))
	for offset := int64(0); offset < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := block[:min(int64(len(block)), size-offset)]
		n, err := body.ReadAt(part, offset)
		if n < len(part) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		offset += int64(n)
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return nil
}
