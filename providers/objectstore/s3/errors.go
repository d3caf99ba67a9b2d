package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// ErrNoBucket says that the bucket is not there, or not at this endpoint. It
// is not objectstore.ErrNotExist: nothing is known about any object.
var ErrNoBucket = errors.New("bucket does not exist")

// ErrTooLarge says that a body is larger than MaxSize.
var ErrTooLarge = errors.New("object is too large for one request")

// wrongAnswer is one that breaks the rules of S3, and will again.
type wrongAnswer string

func (w wrongAnswer) Error() string { return string(w) }

// failed makes the error of a call from what minio-go returned.
func (s *Store) failed(ctx context.Context, op, key string, c *call, err error) error {
	return &objectstore.Error{Op: op, Key: key, Err: s.explain(ctx, op, key, c, err)}
}

func (s *Store) explain(ctx context.Context, op, key string, c *call, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.failure != nil {
		return s.explainFailure(key, c.failure)
	}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		return waiting(c.header, s.explainAnswer(op, key, answer))
	}
	var wrong wrongAnswer
	if errors.As(err, &wrong) {
		return s.about(nil, key, wrong.Error(), "")
	}
	if c.status != 0 { // an answer that minio-go could not read
		return s.about(objectstore.ErrUnavailable, key, plain(err.Error()), hintStranger)
	}
	return s.about(nil, key, plain(err.Error()), "")
}

// about is an error that names the object, the host, what happened and what to
// do about it. Sentinel may be nil, what and hint empty.
func (s *Store) about(sentinel error, key, what, hint string) error {
	text := fmt.Sprintf("s3://%s/%s%s at %s", s.bucket, s.root, key, s.host)
	if what != "" {
		text += ": " + what
	}
	if hint != "" {
		text += "; " + hint
	}
	err := errors.New(text)
	if sentinel != nil {
		err = fmt.Errorf("%w: %s", sentinel, text)
	}
	if hint != "" {
		err = &advised{err}
	}
	return err
}

// advised is an error that ends with what to do about it.
type advised struct{ error }

func (a *advised) Unwrap() error { return a.error }

// Advised reports whether the text of an error says what to do about it.
func Advised(err error) bool { return errors.As(err, new(*advised)) }

// explainAnswer is about a store that said no.
func (s *Store) explainAnswer(op, key string, answer minio.ErrorResponse) error {
	sentinel := sentinelOf(op, answer)
	if sentinel == objectstore.ErrNotExist || sentinel == objectstore.ErrExist || sentinel == objectstore.ErrPrecondition {
		return s.about(sentinel, key, "", "")
	}
	if isStranger(op, answer) {
		return s.about(sentinel, key, fmt.Sprintf("an answer of %d with no S3 error in it", answer.StatusCode), hintStranger)
	}
	what := plain(answer.Error())
	if answer.Code != "" && !strings.Contains(what, answer.Code) {
		what = plain(answer.Code) + ": " + what
	}
	what += fmt.Sprintf(" (%d", answer.StatusCode)
	if answer.RequestID != "" {
		what += ", request " + plain(answer.RequestID)
	}
	what += ")"
	hint := s.hint(op, answer)
	if hint == "" && answer.StatusCode == http.StatusForbidden && (op == opGet || op == opStat) {
		what += "; an absent object looks like that too, to credentials that may not list the bucket"
	}
	return s.about(sentinel, key, what, hint)
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

// sentinelOf sorts answers: by their code, and where it is unknown or missing,
// as it is in an answer without a body, by their status.
func sentinelOf(op string, answer minio.ErrorResponse) error {
	if sentinel, known := codes[answer.Code]; known {
		if isStranger(op, answer) {
			return objectstore.ErrUnavailable
		}
		return sentinel
	}
	code := strings.ToLower(answer.Code)
	switch {
	case strings.Contains(code, "slowdown"), strings.Contains(code, "throttl"):
		return objectstore.ErrThrottled
	case strings.Contains(code, "quota"), strings.Contains(code, "storagefull"):
		return objectstore.ErrNoSpace
	}
	switch status := answer.StatusCode; {
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

// isStranger doubts an absent object or bucket that has no S3 error around it:
// minio-go makes one up for any 404, and a proxy whose store is gone, or a web
// server in its place, would make all objects look absent. An answer to HEAD
// never has a body: see Store.Stat.
func isStranger(op string, answer minio.ErrorResponse) bool {
	absent := answer.Code == minio.NoSuchKey || answer.Code == minio.NoSuchBucket
	return absent && op != opStat && answer.XMLName.Local == ""
}

// codes are the errors of S3 and its imitators that mean something to callers.
var codes = map[string]error{
	minio.NoSuchKey:    objectstore.ErrNotExist,
	minio.NoSuchBucket: ErrNoBucket,

	minio.PreconditionFailed: objectstore.ErrPrecondition,
	minio.InvalidRange:       objectstore.ErrRange,

	"TooManyRequests":        objectstore.ErrThrottled,
	"RequestLimitExceeded":   objectstore.ErrThrottled,
	"BandwidthLimitExceeded": objectstore.ErrThrottled,

	"ExpiredToken":          objectstore.ErrDenied,
	"ExpiredTokenException": objectstore.ErrDenied,
	"InvalidToken":          objectstore.ErrDenied,
	"XAdminUserNotFound":    objectstore.ErrDenied, // 404: an unknown access key at versitygw
	"TokenRefreshRequired":  objectstore.ErrDenied,
	"InvalidObjectState":    nil, // 403: it is in an archive

	// Another conditional put is in progress. It may fail, so nothing is known.
	"ConditionalRequestConflict": objectstore.ErrUnavailable,
	"OperationAborted":           objectstore.ErrUnavailable,

	// The body was damaged or held up on the way; it is whole where it comes from.
	"BadDigest":                   objectstore.ErrUnavailable,
	"XAmzContentSHA256Mismatch":   objectstore.ErrUnavailable,
	"XAmzContentChecksumMismatch": objectstore.ErrUnavailable,
	"IncompleteBody":              objectstore.ErrUnavailable,
	"RequestTimeout":              objectstore.ErrUnavailable,
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
