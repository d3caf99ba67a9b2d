package s3

import (
	"errors"
	"io"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// upload is the body of a put while it is sent. net/http may go on reading a
// request's body when it has returned its answer; close makes sure that nobody
// reads ours any longer.
type upload struct {
	body objectstore.Body

	mu     sync.Mutex // guards the fields below, and is held while body is read
	err    error      // why the body could not be read
	closed bool
}

var errUploadOver = errors.New("upload is over")

// open returns a reader of the whole body, from its start.
func (u *upload) open() io.ReadCloser {
	return io.NopCloser(&uploadReader{u, io.NewSectionReader(u.body, 0, u.body.Size())})
}

// close waits for a read in progress. It returns why the body could not be
// read, or nil.
func (u *upload) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	return u.err
}

type uploadReader struct {
	upload  *upload
	section *io.SectionReader
}

func (r *uploadReader) Read(p []byte) (int, error) {
	r.upload.mu.Lock()
	defer r.upload.mu.Unlock()
	if r.upload.closed {
		return 0, errUploadOver
	}
	n, err := r.section.Read(p)
	if err != nil && err != io.EOF {
		r.upload.err = err
	}
	return n, err
}
