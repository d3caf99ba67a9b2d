package chunk

import (
	"errors"
	"fmt"

	"github.com/restic/chunker"
)

// Params say how content is cut. They belong to the repository: writers with
// other parameters produce other chunks of the same content and share nothing.
type Params struct {
	// Polynomial of the fingerprint over GF(2), irreducible, of degree 53.
	Polynomial uint64
	// Min and Max bound the length of a chunk in bytes, except that a run of data
	// between holes which is shorter than Min is one chunk.
	Min, Max int
	// AvgBits is the binary logarithm of the mean distance between cut points,
	// counted from Min on.
	AvgBits int
}

// Default bounds of a new repository.
const (
	DefaultMin     = 512 << 10
	DefaultMax     = 4 << 20
	DefaultAvgBits = 19
)

// MaxChunk bounds Params.Max, hence the buffers that readers of a repository
// need.
const MaxChunk = 64 << 20

const (
	degree     = 53 // of the polynomials that restic/chunker draws, and its limit
	windowSize = 64 // of its fingerprint
)

// NewParams returns the default parameters with a polynomial drawn from the
// system's source of randomness.
func NewParams() (Params, error) {
	pol, err := chunker.RandomPolynomial()
	if err != nil {
		return Params{}, fmt.Errorf("draw polynomial: %w", err)
	}
	return Params{Polynomial: uint64(pol), Min: DefaultMin, Max: DefaultMax, AvgBits: DefaultAvgBits}, nil
}

// ErrBadParams says that parameters are outside of their bounds.
var ErrBadParams = errors.New("bad chunking parameters")

// Check reports whether p can be used. Its errors wrap ErrBadParams. It takes
// some ten microseconds, for the polynomial.
func (p Params) Check() error {
	pol := chunker.Pol(p.Polynomial)
	switch {
	case pol.Deg() != degree || !pol.Irreducible():
		return fmt.Errorf("%w: polynomial %#x", ErrBadParams, p.Polynomial)
	case p.Min < windowSize || p.Max < p.Min || p.Max > MaxChunk:
		return fmt.Errorf("%w: chunks of %d to %d bytes", ErrBadParams, p.Min, p.Max)
	case p.AvgBits < 1 || p.AvgBits > 40:
		return fmt.Errorf("%w: cut points every 2^%d bytes", ErrBadParams, p.AvgBits)
	}
	return nil
}
