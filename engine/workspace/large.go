package workspace

import (
	"errors"
	"io"
	"sync"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// large is a file whose chunks are put by all workers. One of them, the owner,
// cuts it, and puts a chunk itself when enough of them wait for the others.
type large struct {
	mu     sync.Mutex
	pieces []manifest.Extent // cut and not yet passed on in order
	put    []bool            // of pieces: its id is known
	base   int               // number of the first of pieces
	helped chan struct{}     // a helper has put one
}

// chunkTask is a chunk to be put by whoever is free.
type chunkTask struct {
	file   *large
	number int
	data   []byte
}

// readLarge puts the content of a large file.
func (w *worker) readLarge(e *entry, fd int, st *status) (int64, error) {
	file := &large{helped: make(chan struct{}, 1)}
	out := manifest.NewContentWriter(w.putNode)
	cutter := w.openCutter(fd, st)
	size := int64(0)
	var cutErr error
	for cutErr == nil {
		var piece chunk.Piece
		buf := w.walk.buffers.get()
		if piece, cutErr = cutter.Next(buf); cutErr != nil {
			w.walk.buffers.put(buf)
			break
		}
		size += piece.Length
		if err := w.cutPiece(file, piece, buf); err != nil {
			return 0, err
		}
		if err := file.drain(out); err != nil {
			return 0, err
		}
	}
	w.countRead(cutter.BytesRead())
	if err := w.awaitPieces(file, out); err != nil {
		return 0, err
	}
	if !errors.Is(cutErr, io.EOF) {
		return 0, &readError{cutErr}
	}
	content, err := out.Finish()
	e.content = content
	return size, err
}

// cutPiece offers a chunk to the other workers, or puts it at once.
func (w *worker) cutPiece(file *large, piece chunk.Piece, buf []byte) error {
	hole := piece.Data == nil
	c := chunkTask{file: file, number: file.add(piece.Length, hole), data: piece.Data}
	if hole {
		w.walk.buffers.put(buf)
		return nil
	}
	if w.walk.sched.offer(c) {
		return nil
	}
	return w.putChunk(c)
}

// putChunk puts a chunk of a large file and gives its buffer back.
func (w *worker) putChunk(c chunkTask) error {
	id, err := w.writer.Put(w.ctx, blob.Data, c.data)
	if err != nil {
		return err
	}
	w.walk.buffers.put(c.data)
	c.file.done(c.number, id)
	return nil
}

// awaitPieces puts chunks until all of the file's pieces are passed on, and
// waits for those that other workers have in hand.
func (w *worker) awaitPieces(file *large, out *manifest.ContentWriter) error {
	for {
		if err := file.drain(out); err != nil {
			return err
		}
		if file.empty() {
			return nil
		}
		if c, ok := w.walk.sched.takeChunk(); ok {
			if err := w.putChunk(c); err != nil {
				return err
			}
			continue
		}
		select {
		case <-file.helped:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// add numbers a piece.
func (f *large) add(length int64, hole bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pieces = append(f.pieces, manifest.Extent{Length: uint64(length)})
	f.put = append(f.put, hole)
	return f.base + len(f.pieces) - 1
}

func (f *large) done(number int, id blob.ID) {
	f.mu.Lock()
	f.pieces[number-f.base].ID = id
	f.put[number-f.base] = true
	f.mu.Unlock()
	select {
	case f.helped <- struct{}{}:
	default:
	}
}

// drain passes on the pieces that are put and whose predecessors are.
func (f *large) drain(out *manifest.ContentWriter) error {
	f.mu.Lock()
	n := 0
	for n < len(f.put) && f.put[n] {
		n++
	}
	ready := append([]manifest.Extent(nil), f.pieces[:n]...)
	f.pieces = append(f.pieces[:0], f.pieces[n:]...)
	f.put = append(f.put[:0], f.put[n:]...)
	f.base += n
	f.mu.Unlock()
	for _, x := range ready {
		if err := out.Add(x); err != nil {
			return err
		}
	}
	return nil
}

func (f *large) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pieces) == 0
}

// buffers are those of chunks in hand. There are never more than the chunks that
// may wait, one a worker that puts one, and one an owner cuts into.
type buffers struct {
	mu   sync.Mutex
	size int
	free [][]byte
}

func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.free); n > 0 {
		buf := b.free[n-1]
		b.free = b.free[:n-1]
		return buf
	}
	return make([]byte, b.size)
}

func (b *buffers) put(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, buf[:cap(buf)])
}
