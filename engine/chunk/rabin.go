package chunk

import "github.com/restic/chunker"

// rabin finds the places where content is cut: those behind which the
// fingerprint of the last 64 bytes has AvgBits zeros at its end.
//
// It agrees with restic/chunker, byte for byte. That one rolls one fingerprint
// along, in which each step waits for the table look-up of the step before,
// about 3 ns. But a fingerprint depends on nothing but its window; so four of
// them roll along four parts of the data at once and their look-ups overlap,
// which takes a third of the time.
type rabin struct {
	mod  [256]uint64 // the reduction of the 8 bits above the degree
	out  [256]uint64 // fingerprint of a byte and 64 zeros: what has left the window
	mask uint64
}

// topShift takes a fingerprint to its highest 8 bits: those that the next byte
// moves beyond the degree.
const topShift = degree - 8

func newRabin(p Params) *rabin {
	r := &rabin{mask: 1<<p.AvgBits - 1}
	pol := chunker.Pol(p.Polynomial)
	for b := range 256 {
		top := chunker.Pol(b) << degree
		r.mod[b] = uint64(top.Mod(pol) | top)
	}
	for b := range 256 {
		h := r.push(0, byte(b))
		for range windowSize {
			h = r.push(h, 0)
		}
		r.out[b] = h
	}
	return r
}

// push appends a byte to what is fingerprinted.
func (r *rabin) push(h uint64, b byte) uint64 {
	return (h<<8 | uint64(b)) ^ r.mod[uint8(h>>topShift)]
}

// roll moves the window on by one byte. Fingerprints are linear, so what leaves
// can be taken out after the reduction as well, off the path from one
// fingerprint to the next.
func (r *rabin) roll(h uint64, leaving, entering byte) uint64 {
	return (h<<8 | uint64(entering)) ^ r.mod[uint8(h>>topShift)] ^ r.out[leaving]
}

// window is the fingerprint of 64 bytes.
func (r *rabin) window(b []byte) uint64 {
	h := uint64(0)
	for _, b := range b[:windowSize] {
		h = r.push(h, b)
	}
	return h
}

// find returns the smallest n from low to high at which b is cut into b[:n] and
// the rest, or 0 if there is none. low is at least windowSize.
func (r *rabin) find(b []byte, low, high int) int {
	for ; low+lanes*laneSize <= high+1; low += lanes * laneSize {
		block := (*[blockSpan]byte)(b[low-windowSize:])
		if r.anyIn(block) {
			return r.scan(b, low, high)
		}
	}
	return r.scan(b, low, high)
}

// scan is find, one place after the other.
func (r *rabin) scan(b []byte, low, high int) int {
	if low > high {
		return 0
	}
	h := r.window(b[low-windowSize:])
	for n := low; ; n++ {
		if h&r.mask == 0 {
			return n
		}
		if n == high {
			return 0
		}
		h = r.roll(h, b[n-windowSize], b[n])
	}
}

// Four lanes of 8 KiB fit into the first-level cache.
const (
	lanes    = 4
	laneSize = 8 << 10
	// blockSpan is how many bytes decide about lanes*laneSize places: the window
	// before the first of them, and none behind the last.
	blockSpan = windowSize + lanes*laneSize - 1
)

// anyIn reports whether there is a place to cut among lanes*laneSize of them,
// the first one being behind the first window. With constant distances between
// lanes everything stays in registers and needs no checks of bounds.
func (r *rabin) anyIn(b *[blockSpan]byte) bool {
	const lane1, lane2, lane3 = laneSize, 2 * laneSize, 3 * laneSize
	h0, h1, h2, h3 := r.window(b[:]), r.window(b[lane1:]), r.window(b[lane2:]), r.window(b[lane3:])
	mask, out, mod := r.mask, &r.out, &r.mod
	for i := range laneSize - 1 {
		if h0&mask == 0 || h1&mask == 0 || h2&mask == 0 || h3&mask == 0 {
			return true
		}
		h0 = (h0<<8 | uint64(b[windowSize+i])) ^ mod[uint8(h0>>topShift)] ^ out[b[i]]
		h1 = (h1<<8 | uint64(b[lane1+windowSize+i])) ^ mod[uint8(h1>>topShift)] ^ out[b[lane1+i]]
		h2 = (h2<<8 | uint64(b[lane2+windowSize+i])) ^ mod[uint8(h2>>topShift)] ^ out[b[lane2+i]]
		h3 = (h3<<8 | uint64(b[lane3+windowSize+i])) ^ mod[uint8(h3>>topShift)] ^ out[b[lane3+i]]
	}
	return h0&mask == 0 || h1&mask == 0 || h2&mask == 0 || h3&mask == 0
}
