package objectstoretest

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// randomBytes is content that is the same for the same seed.
func randomBytes(seed uint64, n int) string {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return string(b)
}

var errBody = errors.New("body cannot be read")

// failingBody fails to read anything behind its first half.
type failingBody struct{ objectstore.Body }

func (b failingBody) ReadAt(p []byte, off int64) (int, error) {
	half := b.Size() / 2
	if off+int64(len(p)) <= half {
		return b.Body.ReadAt(p, off)
	}
	n := 0
	if off < half {
		n, _ = b.Body.ReadAt(p[:half-off], off)
	}
	return n, errBody
}

// shortBody promises more than it has.
type shortBody struct {
	io.ReaderAt
	size int64
}

func (b shortBody) Size() int64 { return b.size }

// gatedBody stops the first read that reaches its last byte until the gate is
// opened.
type gatedBody struct {
	objectstore.Body
	once    sync.Once
	reached chan struct{} // closed when the last byte is asked for
	gate    chan struct{} // closed to go on
}

func newGatedBody(body objectstore.Body) *gatedBody {
	return &gatedBody{Body: body, reached: make(chan struct{}), gate: make(chan struct{})}
}

func (b *gatedBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) >= b.Size() {
		b.once.Do(func() { close(b.reached) })
		<-b.gate
	}
	return b.Body.ReadAt(p, off)
}
