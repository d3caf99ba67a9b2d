package chunk

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// BlockSize is the grain of holes in bytes. Part of the format; do not change:
// other holes give equal files other ids.
const BlockSize = 64 << 10

const maxOffset = math.MaxInt64

// windowBlocks is how many blocks are read at once: 512 KiB stay in the cache
// of a core while they are scanned, cut and copied.
const windowBlocks = 8

var zeros [BlockSize]byte

// isZero compares whole blocks with memequal, which takes 32 bytes a step and
// stops at the first difference: data costs a few nanoseconds a block.
func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// segment is what the scanner yields: data, or zeros that belong to a hole.
type segment struct {
	data []byte // in the window; valid until the next one is asked for
	hole int64  // bytes, if data is nil
}

// scanner tells data from holes.
type scanner struct {
	src    Source
	sparse sparseSource // nil if everything must be read
	size   int64
	off    int64 // of the first byte behind the window
	read   int64 // bytes that came from src
	// The allocated range that contains or follows off, as far as known.
	dataStart, dataEnd int64

	buf      []byte
	window   []byte // of buf, not yielded yet; begins at a block
	afterGap bool   // the segment yielded last was a hole
}

func (s *scanner) reset(src Source, size int64) {
	*s = scanner{src: src, size: size, buf: s.buf}
	s.sparse, _ = src.(sparseSource)
	if s.buf == nil {
		s.buf = make([]byte, windowBlocks*BlockSize)
	}
}

// next yields the next segment: one block of zeros, an unallocated range, or
// the data up to the next zero block or the end of the window. Both fields of
// the result are zero at the end of the file.
func (s *scanner) next() (segment, error) {
	if len(s.window) == 0 {
		if s.off >= s.size {
			return segment{}, nil
		}
		if gap, err := s.gap(); gap > 0 || err != nil {
			s.off += gap
			s.afterGap = true
			return segment{hole: gap}, err
		}
		if err := s.fill(); err != nil || len(s.window) == 0 {
			return segment{}, err
		}
	}
	if s.zeroBlock(0) {
		n := min(BlockSize, len(s.window))
		s.window = s.window[n:]
		s.afterGap = true
		return segment{hole: int64(n)}, nil
	}
	n := min(BlockSize, len(s.window))
	s.afterGap = false
	for n < len(s.window) && !s.zeroBlock(n) {
		n += min(BlockSize, len(s.window)-n)
	}
	data := s.window[:n]
	s.window = s.window[n:]
	return segment{data: data}, nil
}

// zeroBlock reports whether the block at window[n:] belongs to a hole. A short
// one, the last of the file, does so only behind a hole.
func (s *scanner) zeroBlock(n int) bool {
	block := s.window[n:min(n+BlockSize, len(s.window))]
	return isZero(block) && (len(block) == BlockSize || n == 0 && s.afterGap)
}

// gap returns the length of the whole blocks at off that are not allocated;
// with them goes a shorter block at the end of the file.
func (s *scanner) gap() (int64, error) {
	if s.sparse == nil {
		return 0, nil
	}
	if s.off >= s.dataEnd {
		start, end, err := s.sparse.findData(s.off)
		if err != nil {
			return 0, err
		}
		s.dataStart, s.dataEnd = start, end
	}
	if s.dataStart >= s.size {
		gap := s.size - s.off
		if gap < BlockSize && !s.afterGap { // a short block alone is data
			s.dataStart = s.off
			return 0, nil
		}
		return gap, nil
	}
	return max(0, (s.dataStart-s.off)&^(BlockSize-1)), nil
}

// fill reads the next window. If the file turns out to be shorter than its
// size, it ends there.
func (s *scanner) fill() error {
	n := min(int64(len(s.buf)), s.size-s.off)
	wanted := n
	if s.sparse != nil && s.dataEnd-s.off < n {
		var err error
		if wanted, n, err = s.allocated(n); err != nil {
			return err
		}
	}
	window := s.buf[:n]
	clear(window[wanted:])
	got, err := s.src.ReadAt(window[:wanted], s.off)
	s.read += int64(got)
	if int64(got) < wanted {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.size = s.off + int64(got)
		n = int64(got)
	}
	s.window = window[:n]
	s.off += n
	return nil
}

// allocated returns how many of the n bytes at off to read, up to the end of
// the allocated range, and how many to yield, up to the end of its last block:
// the rest of that block is zero unless another range begins in it.
func (s *scanner) allocated(n int64) (wanted, yielded int64, err error) {
	wanted = s.dataEnd - s.off
	yielded = min(n, (wanted+BlockSize-1)&^(BlockSize-1))
	if wanted == yielded {
		return wanted, yielded, nil
	}
	start, end, err := s.sparse.findData(s.dataEnd)
	if err != nil {
		return 0, 0, err
	}
	if start < s.off+yielded {
		return yielded, yielded, nil
	}
	s.dataStart, s.dataEnd = start, end
	return wanted, yielded, nil
}
