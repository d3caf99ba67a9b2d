package blob

import (
	"fmt"
	"testing"
)

func BenchmarkNamer(b *testing.B) {
	n := NewNamer([32]byte{1})
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			content := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				n.ID(Data, content)
			}
		})
	}
}
