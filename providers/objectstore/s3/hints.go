package s3

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// hint says what to do about an answer, if that is known.
func (s *Store) hint(op string, answer minio.ErrorResponse) string {
	if hint, known := hints[answer.Code]; known {
		return hint
	}
	switch {
	case answer.StatusCode == http.StatusMovedPermanently, strings.Contains(answer.Code, "Region"),
		answer.Code == minio.AuthorizationHeaderMalformed, answer.Code == "TemporaryRedirect":
		return s.regionHint(answer.Region)
	case answer.StatusCode == http.StatusNotImplemented && op == opPut:
		return "the store may not take this checksum (try checksum=md5), or no conditional puts"
	case answer.StatusCode == http.StatusBadRequest && op == opStat:
		return "an answer to HEAD has no reason in it: mostly the credentials have expired, or the region is wrong"
	case strings.Contains(answer.Message, "HTTP request to an HTTPS server"):
		return "write https:// in the endpoint"
	}
	return ""
}

var hints = map[string]string{
	minio.RequestTimeTooSkewed:  "the clock of this machine is wrong: set it",
	minio.SignatureDoesNotMatch: "the secret key does not belong to the access key, or something on the way changes requests",
	minio.InvalidAccessKeyID:    hintUnknownKey,
	"XAdminUserNotFound":        hintUnknownKey,
	"ExpiredToken":              hintExpired,
	"ExpiredTokenException":     hintExpired,
	"TokenRefreshRequired":      hintExpired,
	minio.NoSuchBucket:          "make the bucket first, or check its name, the endpoint and the region",
	minio.InvalidObjectState:    "the object is in an archive and has to be restored there; repositories cannot live in archive storage classes",
}

const (
	hintExpired    = "the temporary credentials have expired: get new ones"
	hintStranger   = "is this the address of an S3 API?"
	hintUnknownKey = "the store does not know this access key: do the credentials belong to this endpoint?"
)

func (s *Store) regionHint(region string) string {
	if region != "" && region != s.region {
		return fmt.Sprintf("the bucket is in region %s, not %s", plain(region), s.region)
	}
	return fmt.Sprintf("is the bucket in region %s, and at this endpoint?", s.region)
}

// explainFailure is about a connection that failed. Its cause is given as text
// only: inside are errors that look like the caller's own deadline.
func (s *Store) explainFailure(key string, cause error) error {
	what := plain(cause.Error())
	var name *net.DNSError
	if errors.As(cause, &name) {
		what = fmt.Sprintf("host %s has no address: %s", name.Name, plain(name.Err))
		hint := "check the endpoint, the region, and this machine's name server"
		if name.IsNotFound && !name.IsTemporary {
			return s.about(nil, key, what, hint)
		}
		return s.about(objectstore.ErrUnavailable, key, what, hint)
	}
	if hint := tlsHint(cause); hint != "" {
		return s.about(nil, key, "no secure connection: "+what, hint)
	}
	err := s.about(objectstore.ErrUnavailable, key, what, "")
	if errors.Is(cause, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", err, io.ErrUnexpectedEOF)
	}
	return err
}

// tlsHint is not empty if the two sides cannot agree on TLS, which does not
// change when it is tried again.
func tlsHint(cause error) string {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(cause, &certificate):
		return "trust its certificate with ca=FILE, or check the endpoint and this machine's clock"
	case errors.As(cause, &record), strings.Contains(cause.Error(), "HTTP response to HTTPS client"):
		return "the store may speak plain HTTP there: check scheme and port of the endpoint"
	case errors.As(cause, &alert):
		return "the store refused: does the endpoint name the right host?"
	}
	return ""
}
