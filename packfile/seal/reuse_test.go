package seal

import (
	"bytes"
	"testing"
)

// A reader of many units opens them into one buffer: its capacity must survive.
func TestOpenKeepsTheBuffer(t *testing.T) {
	s := New(Key{Secret: [32]byte{1}}, Fastest)
	buffer := make([]byte, 0, 1<<16)
	for _, size := range []int{100, 60_000, 10, 1 << 16} {
		content := bytes.Repeat([]byte("0123456789"), size)[:size]
		opened, err := s.Open(buffer, Footer, s.Seal(nil, Footer, content, content), size)
		if err != nil || !bytes.Equal(opened, content) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if cap(opened) != cap(buffer) || &opened[:1][0] != &buffer[:1][0] {
			t.Errorf("%d bytes: capacity %d, want the buffer's %d", size, cap(opened), cap(buffer))
		}
	}
}
