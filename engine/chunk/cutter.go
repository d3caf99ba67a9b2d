package chunk

import (
	"errors"
	"io"

	"github.com/restic/chunker"
)

// Piece is a part of a file: a hole if Data is nil, else a chunk.
type Piece struct {
	Length int64
	Data   []byte
}

// Cutter cuts one file after the other. It needs about 1.5 MiB with the default
// parameters and belongs to one goroutine.
type Cutter struct {
	params  Params
	scan    scanner
	peeked  segment // not consumed yet
	peekErr error
	head    []byte // the first Min bytes of a run, on their way into rabin
	rabin   *chunker.Chunker
	running bool // rabin is inside of a run
}

// NewCutter returns a Cutter without a file. The parameters must pass Check.
func NewCutter(p Params) *Cutter { return &Cutter{params: p} }

// Reset turns to a file of size bytes. Not more than size bytes are read,
// however much src holds; if src ends earlier, so do the pieces.
func (c *Cutter) Reset(src Source, size int64) {
	c.scan.reset(src, size)
	c.peeked, c.peekErr = segment{}, nil
	c.head = c.head[:0]
	c.running = false
}

// BytesRead is the number of bytes read from the file so far; unallocated parts
// that were skipped do not count.
func (c *Cutter) BytesRead() int64 { return c.scan.read }

// Next returns the next piece, io.EOF behind the last one, or the error of the
// source. The data lies in buf, or in a longer buffer if buf holds less than
// Params.Max bytes; the caller owns it.
func (c *Cutter) Next(buf []byte) (Piece, error) {
	if cap(buf) < c.params.Max {
		buf = make([]byte, c.params.Max)
	}
	if c.running {
		piece, err := c.cut(buf)
		if !errors.Is(err, io.EOF) {
			return piece, err
		}
		c.running = false
	}
	seg, err := c.peek()
	switch {
	case err != nil:
		return Piece{}, err
	case seg.hole > 0:
		return c.hole()
	case len(seg.data) == 0:
		return Piece{}, io.EOF
	}
	return c.startRun(buf)
}

// hole joins the zeros up to the next data.
func (c *Cutter) hole() (Piece, error) {
	piece := Piece{}
	for {
		seg, err := c.peek()
		if err != nil {
			return Piece{}, err
		}
		if seg.hole == 0 {
			return piece, nil
		}
		piece.Length += seg.hole
		c.peeked = segment{}
	}
}

// startRun returns the first chunk of a run of data: all of it, if the run is
// not longer than Min, without any fingerprints.
func (c *Cutter) startRun(buf []byte) (Piece, error) {
	n, err := io.ReadFull(run{c}, buf[:c.params.Min])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Piece{}, err
	}
	seg, err := c.peek()
	if err != nil {
		return Piece{}, err
	}
	if len(seg.data) == 0 {
		return Piece{Length: int64(n), Data: buf[:n]}, nil
	}
	c.head = append(c.head[:0], buf[:n]...)
	c.resetRabin()
	c.running = true
	return c.cut(buf)
}

func (c *Cutter) resetRabin() {
	pol, low, high := chunker.Pol(c.params.Polynomial), uint(c.params.Min), uint(c.params.Max)
	if c.rabin == nil {
		c.rabin = chunker.NewWithBoundaries(run{c}, pol, low, high)
	} else {
		c.rabin.ResetWithBoundaries(run{c}, pol, low, high)
	}
	c.rabin.SetAverageBits(c.params.AvgBits)
}

func (c *Cutter) cut(buf []byte) (Piece, error) {
	chunk, err := c.rabin.Next(buf)
	if err != nil {
		return Piece{}, err
	}
	return Piece{Length: int64(chunk.Length), Data: chunk.Data}, nil
}

// peek returns the segment that comes next without consuming it.
func (c *Cutter) peek() (segment, error) {
	if c.peeked.hole == 0 && len(c.peeked.data) == 0 && c.peekErr == nil {
		c.peeked, c.peekErr = c.scan.next()
	}
	return c.peeked, c.peekErr
}

// run reads the data up to the next hole.
type run struct{ c *Cutter }

func (r run) Read(p []byte) (int, error) {
	c := r.c
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	seg, err := c.peek()
	if err != nil {
		return 0, err
	}
	if len(seg.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, seg.data)
	c.peeked.data = seg.data[n:]
	return n, nil
}
