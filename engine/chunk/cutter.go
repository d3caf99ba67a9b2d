package chunk

import "io"

// Piece is a part of a file: a hole if Data is nil, else a chunk.
type Piece struct {
	Length int64
	Data   []byte
}

// Cutter cuts one file after the other. It needs about 0.6 MiB and belongs to
// one goroutine.
type Cutter struct {
	params  Params
	rabin   *rabin
	scan    scanner
	peeked  segment // not consumed yet
	peekErr error
	running bool   // inside of a run of data
	carry   []byte // of the run, read and behind the last cut
}

// NewCutter returns a Cutter without a file. The parameters must pass Check.
func NewCutter(p Params) *Cutter { return &Cutter{params: p, rabin: newRabin(p)} }

// Reset turns to a file of size bytes. Not more than size bytes are read,
// however much src holds; if src ends earlier, so do the pieces.
func (c *Cutter) Reset(src Source, size int64) {
	c.scan.reset(src, size)
	c.peeked, c.peekErr = segment{}, nil
	c.carry = c.carry[:0]
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
	buf = buf[:c.params.Max]
	if c.running {
		if data, err := c.cut(buf); len(data) > 0 || err != nil {
			return Piece{Length: int64(len(data)), Data: data}, err
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
	c.running = true
	return c.Next(buf)
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

// readAhead is how much of a run is read at once behind Min. What lies behind
// the cut is copied to the next chunk's buffer.
const readAhead = 64 << 10

// cut returns the next chunk of the run of data, in buf; it is empty at the end
// of the run. The fingerprint of a run shorter than Min is never computed.
func (c *Cutter) cut(buf []byte) ([]byte, error) {
	low, high := c.params.Min, c.params.Max
	n := copy(buf[:high], c.carry)
	c.carry = c.carry[:0]
	for more := true; ; {
		if n < low && more {
			var err error
			if n, more, err = c.fill(buf, n, low); err != nil {
				return nil, err
			}
		}
		if n >= low {
			if end := c.rabin.find(buf, low, n); end > 0 {
				c.carry = append(c.carry, buf[end:n]...)
				return buf[:end], nil
			}
			low = n + 1
		}
		if n == high || !more {
			return buf[:n], nil
		}
		var err error
		if n, more, err = c.fill(buf, n, min(high, n+readAhead)); err != nil {
			return nil, err
		}
	}
}

// fill reads on in the run until buf holds want bytes instead of n; more is
// false if the run ends before.
func (c *Cutter) fill(buf []byte, n, want int) (filled int, more bool, err error) {
	for n < want {
		seg, err := c.peek()
		if err != nil {
			return n, false, err
		}
		if len(seg.data) == 0 {
			return n, false, nil
		}
		k := copy(buf[n:want], seg.data)
		c.peeked.data = seg.data[k:]
		n += k
	}
	return n, true, nil
}

// peek returns the segment that comes next without consuming it.
func (c *Cutter) peek() (segment, error) {
	if c.peeked.hole == 0 && len(c.peeked.data) == 0 && c.peekErr == nil {
		c.peeked, c.peekErr = c.scan.next()
	}
	return c.peeked, c.peekErr
}
