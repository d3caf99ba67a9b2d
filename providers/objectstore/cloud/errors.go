package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// ErrNoBucket says that the bucket or container is not there. It is not
// objectstore.ErrNotExist: nothing is known about any object.
var ErrNoBucket = errors.New("bucket does not exist")

// ErrTooLarge says that a body is larger than the store takes in one request.
var ErrTooLarge = errors.New("object is too large for one request")

// errStrange404 is objectstore.ErrUnavailable: an answer that says of something
// that it is absent, and does not look as if the store had given it. A proxy
// whose store is gone, or a web server in its place, would make all objects look
// absent.
var errStrange404 = fmt.Errorf("%w: not found, but not in the words of the store", objectstore.ErrUnavailable)

// wrongAnswer is one that breaks the rules of the store, and will again.
type wrongAnswer string

func (w wrongAnswer) Error() string { return string(w) }

// answer is what a store said that did not do what it was asked for.
type answer struct {
	sentinel error // of objectstore, ErrNoBucket, or nil if callers cannot do anything about it
	code     string
	message  string
	request  string // the store's own name for the request
	hint     string // what to do about it
}

// text is the answer for people.
func (a answer) text(status int) string {
	said := a.message
	if said == "" {
		said = http.StatusText(status)
	}
	if a.code != "" {
		said = a.code + ": " + said
	}
	said = plain(said) + fmt.Sprintf(" (%d", status)
	if a.request != "" {
		said += ", request " + plain(a.request)
	}
	return said + ")"
}

// failed makes the error of a call from what an SDK returned.
func (s *Store) failed(ctx context.Context, op, key string, c *call, err error) error {
	return &objectstore.Error{Op: op, Key: key, Err: s.explain(ctx, op, key, c, err)}
}

func (s *Store) explain(ctx context.Context, op, key string, c *call, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var credentials *credentialError
	var wrong wrongAnswer
	switch {
	case errors.As(c.failure, &credentials), errors.As(err, &credentials):
		return s.about(credentials.sentinel(), key, plain(withoutURL(credentials.cause)), "")
	case c.failure != nil:
		return s.explainFailure(key, c.failure)
	case errors.As(err, &wrong):
		return s.about(nil, key, wrong.Error(), "")
	case errors.Is(err, errOtherVersion):
		return s.about(objectstore.ErrPrecondition, key, "", "")
	case c.status >= http.StatusMultipleChoices:
		return waiting(c.header, s.explainAnswer(op, key, c))
	case c.status != 0: // an answer that the SDK could not read
		return s.about(objectstore.ErrUnavailable, key, plain(withoutURL(err)), "")
	}
	return s.about(nil, key, plain(withoutURL(err)), "")
}

// errOtherVersion says that no object can have the ETag that a put asks for.
var errOtherVersion = errors.New("no object has this etag")

// about is an error that names the object, the host, what happened and what to
// do about it. Sentinel may be nil, what and hint empty.
func (s *Store) about(sentinel error, key, what, hint string) error {
	text := fmt.Sprintf("%s/%s%s at %s", s.place.bucket, s.place.root, key, s.place.host)
	if what != "" {
		text += ": " + what
	}
	if hint != "" {
		text += "; " + hint
	}
	if sentinel == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", sentinel, text)
}

// explainAnswer is about a store that said no.
func (s *Store) explainAnswer(op, key string, c *call) error {
	a := s.service.read(op, c)
	switch a.sentinel {
	case objectstore.ErrNotExist, objectstore.ErrPrecondition:
		return s.about(a.sentinel, key, "", "")
	case ErrNoBucket:
		a.hint = "make it first, or check its name and the account"
	case errStrange404:
		a.hint = "is this the address of the store?"
	}
	return s.about(a.sentinel, key, a.text(c.status), a.hint)
}

// sentinelOf sorts answers by their status.
func sentinelOf(status int) error {
	switch {
	case status == http.StatusNotFound:
		return errStrange404
	case status == http.StatusPreconditionFailed:
		return objectstore.ErrPrecondition
	case status == http.StatusRequestedRangeNotSatisfiable:
		return objectstore.ErrRange
	case status == http.StatusTooManyRequests:
		return objectstore.ErrThrottled
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return objectstore.ErrDenied
	case status == http.StatusInsufficientStorage:
		return objectstore.ErrNoSpace
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return nil
	case status == http.StatusRequestTimeout, status >= 500:
		return objectstore.ErrUnavailable
	}
	return nil
}

// waiting adds how long the store asks to wait.
func waiting(header http.Header, err error) error {
	after := header.Get("Retry-After")
	if after == "" {
		return err
	}
	wait := time.Duration(0)
	if seconds, parseErr := strconv.ParseUint(after, 10, 16); parseErr == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, parseErr := http.ParseTime(after); parseErr == nil {
		wait = max(0, time.Until(at))
	} else {
		return err
	}
	return &objectstore.Wait{For: wait, Err: err}
}

// withoutURL leaves out the address that net/http puts before an error: with a
// shared access signature it is a secret.
func withoutURL(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// plain cuts text of a stranger to one short line of printable characters.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd || 0x80 <= r && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
