package seal

import (
	"fmt"
	"slices"
)

// Reseal authenticates a unit that was sealed by s and appends it, sealed for the
// repository of to, to dst. The content stays compressed as it is; if both have
// one key, the unit stays as it is altogether. identity is as in Seal. sealed is
// overwritten, and must not overlap dst. After an error, which wraps ErrDamaged,
// dst is as long as it was.
func (s *Sealer) Reseal(dst []byte, unit Unit, identity, sealed []byte, to *Sealer) ([]byte, error) {
	if len(sealed) < Overhead {
		return dst, fmt.Errorf("%v: %w: only %d bytes long", unit, ErrDamaged, len(sealed))
	}
	start := len(dst)
	out := append(slices.Grow(dst, len(sealed)), sealed...)
	salt, text := sealed[:saltSize], sealed[saltSize:]
	body, err := s.aead(unit, salt).Open(text[:0], zeroNonce[:], text, s.additional(unit))
	if err != nil {
		return dst, fmt.Errorf("%v: %w: authentication failed", unit, ErrDamaged)
	}
	if s.key == to.key && s.name == to.name {
		return out, nil
	}
	salt = to.salt(out[start:start], identity, body)
	to.aead(unit, salt).Seal(out[start+saltSize:start+saltSize], zeroNonce[:], body, to.additional(unit))
	return out, nil
}
