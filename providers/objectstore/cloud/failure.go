package cloud

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// explainFailure is about a connection that failed. Its cause is given as text
// only: inside are errors that look like the caller's own deadline.
func (s *Store) explainFailure(key string, cause error) error {
	what := plain(withoutURL(cause))
	var name *net.DNSError
	if errors.As(cause, &name) {
		what = fmt.Sprintf("host %s has no address: %s", name.Name, plain(name.Err))
		hint := "check the endpoint, the account, and this machine's name server"
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
		return "trust its certificate with CAFile, or check the endpoint and this machine's clock"
	case errors.As(cause, &record), strings.Contains(cause.Error(), "HTTP response to HTTPS client"):
		return "the store may speak plain HTTP there: check scheme and port of the endpoint"
	case errors.As(cause, &alert):
		return "the store refused: does the endpoint name the right host?"
	}
	return ""
}

// credentialError says that there were none to sign a request with.
type credentialError struct{ cause error }

func (e *credentialError) Error() string { return "no credentials: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *credentialError) Unwrap() error { return e.cause }

// sentinel tells a server of tokens that did not answer from one that refused.
func (e *credentialError) sentinel() error {
	var network net.Error
	if errors.As(e.cause, &network) || tokenStatus(e.cause) >= 500 {
		return objectstore.ErrUnavailable
	}
	return objectstore.ErrDenied
}
