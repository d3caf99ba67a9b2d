package cloud

import (
	"context"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// checksum is one under way.
type checksum = hash.Hash

// upload is the body of a put while it is sent: its whole content from the
// start, as often as the SDK rewinds it. net/http may go on reading a request's
// body when it has returned its answer; finish makes sure that nobody reads ours
// any longer.
type upload struct {
	size int64
	sum  []byte // of the content

	mu       sync.Mutex // guards the fields below, and is held while the body is read
	section  *io.SectionReader
	err      error // why the body could not be read
	finished bool
}

var errUploadOver = errors.New("upload is over")

// newUpload reads the whole body once, and fails if it is shorter than it says.
func newUpload(ctx context.Context, body objectstore.Body, sum checksum) (*upload, error) {
	size, unsent := body.Size(), objectstore.Unsent(body)
	block := make([]byte, min(size, blockSize))
	for offset := int64(0); offset < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := block[:min(int64(len(block)), size-offset)]
		if n, err := unsent.ReadAt(part, offset); n < len(part) {
			return nil, tooEarly(err)
		}
		sum.Write(part) // a hash never fails
		offset += int64(len(part))
	}
	return &upload{size: size, sum: sum.Sum(nil), section: io.NewSectionReader(body, 0, size)}, nil
}

// blockSize is how much of a body is read at once, in bytes.
const blockSize = 256 << 10

// tooEarly is the error of a body that ends before its end.
func tooEarly(err error) error {
	if err == io.EOF || err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// finish waits for a read in progress. It returns why the body could not be
// read, or nil.
func (u *upload) finish() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.finished = true
	return u.err
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.finished {
		return 0, errUploadOver
	}
	n, err := u.section.Read(p)
	if err == io.EOF {
		at, _ := u.section.Seek(0, io.SeekCurrent) // cannot fail
		if at == u.size {
			return n, io.EOF
		}
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		u.err = err
	}
	return n, err
}

// Seek implements io.Seeker.
func (u *upload) Seek(offset int64, whence int) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.section.Seek(offset, whence)
}

// Close implements io.Closer for the SDKs, which may close and then rewind.
func (u *upload) Close() error { return nil }

// copyTo writes what is left of the content.
func (u *upload) copyTo(w io.Writer) error {
	// A plain writer and reader: gocloud's own copying takes a MiB each time.
	block := make([]byte, max(1, min(u.size, blockSize)))
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{u}, block)
	return err
}
