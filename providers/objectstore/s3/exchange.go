package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// call is what one call of a Store wants to know of its requests beyond what
// minio-go tells. The last request counts. It belongs to one goroutine.
type call struct {
	upload *upload // what the request sends, if it does

	failure error       // why there was no answer, or no whole one, in the words of the connection
	status  int         // of the answer
	header  http.Header // of the answer
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// exchange carries out single requests for minio-go. It gives each its time,
// and notes in the call what came of it.
type exchange struct {
	next     http.RoundTripper
	patience patience
}

// patience is how long to wait for a store.
type patience struct {
	answer time.Duration // for an answer
	rate   int64         // bytes a second of content, beside answer
	stall  time.Duration // for the next bytes of content
}

// content is the time that so many bytes may take; a negative number is
// unknown, and takes what an answer does.
func (p patience) content(bytes int64) time.Duration {
	seconds := max(bytes, 0) / p.rate
	return p.answer + time.Duration(seconds)*time.Second
}

// lateError says that a store was given up.
type lateError struct{ what string }

func (e *lateError) Error() string { return e.what }

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		c = &call{}
	}
	c.failure, c.status, c.header = nil, 0, nil
	ctx, cancel := context.WithCancelCause(req.Context())
	wait := e.patience.content(req.ContentLength)
	timer := time.AfterFunc(wait, func() { cancel(&lateError{fmt.Sprintf("no answer within %v", wait)}) })
	req = req.WithContext(ctx)
	if c.upload != nil && req.ContentLength > 0 {
		// A connection that the store closed while it was idle takes no byte
		// of the request: net/http may then take another one.
		req.GetBody = func() (io.ReadCloser, error) { return c.upload.open(), nil }
	}
	resp, err := e.next.RoundTrip(req)
	timer.Stop()
	if err != nil {
		c.failure = reason(ctx, err)
		cancel(nil)
		return nil, err
	}
	c.status, c.header = resp.StatusCode, resp.Header
	resp.Body = newContent(ctx, cancel, c, resp, e.patience)
	return resp, nil
}

// reason prefers what made us give up to how that looks to the connection.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// content is the body of an answer. It counts the time that it waits for the
// store, not the time that its reader takes.
type content struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	call   *call
	body   io.ReadCloser
	timer  *time.Timer   // runs during a Read
	stall  time.Duration // the longest that a Read may take
	left   time.Duration // for all Reads together
}

func newContent(ctx context.Context, cancel context.CancelCauseFunc, c *call, resp *http.Response, p patience) *content {
	total := p.content(resp.ContentLength)
	late := &lateError{fmt.Sprintf("no byte within %v, or all not within %v", p.stall, total)}
	timer := time.AfterFunc(total, func() { cancel(late) })
	timer.Stop()
	return &content{ctx: ctx, cancel: cancel, call: c, body: resp.Body, timer: timer, stall: p.stall, left: total}
}

func (b *content) Read(p []byte) (int, error) {
	start := time.Now()
	b.timer.Reset(min(b.stall, b.left))
	n, err := b.body.Read(p)
	b.timer.Stop()
	b.left -= time.Since(start)
	if err != nil && err != io.EOF {
		err = reason(b.ctx, err)
		b.call.failure = err
	}
	return n, err
}

func (b *content) Close() error {
	b.timer.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}
