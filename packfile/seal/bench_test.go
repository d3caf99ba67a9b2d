package seal

import "testing"

// source is 1 MiB that compresses to a third, about as program text does.
func source() []byte {
	words := [...]string{"func ", "return ", "if err != nil {\n", "\t}\n", "range ", "string", "byte", "(", ")", ", ", "x", "y", " := ", "err"}
	b := make([]byte, 0, 1<<20+20)
	for i, r := range noise(1 << 20) {
		if len(b) >= 1<<20 {
			break
		}
		b = append(b, words[int(r)%len(words)]...)
		if i%5 == 0 {
			b = append(b, r)
		}
	}
	return b[:1<<20]
}

func BenchmarkSeal(b *testing.B) {
	levels := map[string]Level{"fastest": Fastest, "default": Default, "better": Better}
	for _, name := range []string{"fastest", "default", "better"} {
		s := New(testKey, levels[name])
		for kind, content := range map[string][]byte{"source": source(), "noise": noise(1 << 20)} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(content)))
				b.ReportAllocs()
				var dst []byte
				identity := make([]byte, 50*32)
				for b.Loop() {
					dst = s.Seal(dst[:0], DataFrame, identity, content)
				}
				b.ReportMetric(float64(len(dst))/float64(len(content)), "ratio")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	s := New(testKey, Default)
	for kind, content := range map[string][]byte{"source": source(), "noise": noise(1 << 20)} {
		sealed := s.Seal(nil, DataFrame, nil, content)
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			scratch, dst := make([]byte, len(sealed)), []byte(nil)
			for b.Loop() {
				copy(scratch, sealed)
				var err error
				if dst, err = s.Open(dst[:0], DataFrame, scratch, len(content)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
