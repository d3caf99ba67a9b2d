package cloud

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// call is what one call of a Store wants to know of its requests: the SDKs tell
// each in its own way, and not all of it. The last request counts. It belongs to
// one goroutine.
type call struct {
	failure error       // why there was no answer, or no whole one, in the words of the connection
	status  int         // of the answer
	header  http.Header // of the answer
	problem []byte      // the start of the body of an answer that is an error
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// exchange carries out single requests for the SDKs. It gives each its time, and
// notes in the call what came of it. When a call has failed to get its answer it
// refuses all that the SDK may try afterwards: Google's reads on by new requests
// whatever it is told.
type exchange struct {
	next      http.RoundTripper
	patience  patience
	authorize func(*http.Request) error // adds credentials to a request of our own; nil for none
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
	return p.answer + time.Duration(max(bytes, 0)/p.rate)*time.Second
}

// lateError says that a store was given up.
type lateError struct{ what string }

func (e *lateError) Error() string { return e.what }

// maxProblem is how much of the body of an error is looked at, in bytes.
const maxProblem = 4 << 10

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		c = &call{}
	}
	if c.failure != nil {
		closeBody(req)
		return nil, c.failure
	}
	resp, err := e.send(req, c)
	if err != nil {
		c.failure = err
		return nil, err
	}
	return resp, nil
}

func (e *exchange) send(req *http.Request, c *call) (*http.Response, error) {
	c.status, c.header, c.problem = 0, nil, nil
	ctx, cancel := context.WithCancelCause(req.Context())
	req = req.Clone(ctx)
	if e.authorize != nil {
		if err := e.authorize(req); err != nil {
			closeBody(req)
			cancel(nil)
			return nil, err
		}
	}
	wait := e.patience.content(e.size(req))
	timer := time.AfterFunc(wait, func() { cancel(&lateError{fmt.Sprintf("no answer within %v", wait)}) })
	resp, err := e.next.RoundTrip(req)
	timer.Stop()
	if err != nil {
		err = reason(ctx, err)
		cancel(nil)
		return nil, err
	}
	c.status, c.header = resp.StatusCode, resp.Header
	resp.Body = newContent(ctx, cancel, c, resp, e.patience)
	if resp.StatusCode >= http.StatusBadRequest {
		resp.Body, c.problem = peek(resp.Body)
	}
	if c.failure != nil {
		resp.Body.Close()
		return nil, c.failure
	}
	return resp, nil
}

type sizeKey struct{}

// withSize says how many bytes the request sends whose length is not in it.
func withSize(ctx context.Context, size int64) context.Context {
	return context.WithValue(ctx, sizeKey{}, size)
}

func (e *exchange) size(req *http.Request) int64 {
	if size, ok := req.Context().Value(sizeKey{}).(int64); ok {
		return size
	}
	return req.ContentLength
}

// closeBody does what a RoundTripper has to do that sends nothing.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// peek reads the start of a body, and returns it with a body that still has it.
func peek(body io.ReadCloser) (io.ReadCloser, []byte) {
	start, _ := io.ReadAll(io.LimitReader(body, maxProblem)) // an error is in the call
	whole := io.MultiReader(bytes.NewReader(start), body)
	return struct {
		io.Reader
		io.Closer
	}{whole, body}, start
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
