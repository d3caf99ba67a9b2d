package chunk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/restic/chunker"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// testPolynomial is irreducible; a fixed one keeps cuts the same in every run.
const testPolynomial = 0x3DA3358B4DC173

// smallParams make many chunks of little data.
var smallParams = Params{Polynomial: testPolynomial, Min: 8 << 10, Max: 100 << 10, AvgBits: 14}

func defaultParams() Params {
	return Params{Polynomial: testPolynomial, Min: DefaultMin, Max: DefaultMax, AvgBits: DefaultAvgBits}
}

// collect returns the pieces of a source, with copies of their data.
func collect(t interface {
	Helper()
	Fatalf(string, ...any)
}, p Params, src Source, size int64) []Piece {
	t.Helper()
	c := NewCutter(p)
	c.Reset(src, size)
	buf := make([]byte, p.Max)
	var pieces []Piece
	for {
		piece, err := c.Next(buf)
		if errors.Is(err, io.EOF) {
			return pieces
		}
		if err != nil {
			t.Fatalf("next piece: %v", err)
		}
		piece.Data = bytes.Clone(piece.Data)
		pieces = append(pieces, piece)
	}
}

// content is the concatenation of pieces.
func content(pieces []Piece) []byte {
	var b []byte
	for _, p := range pieces {
		if p.Data == nil {
			b = append(b, make([]byte, p.Length)...)
		} else {
			b = append(b, p.Data...)
		}
	}
	return b
}

// wantPieces cuts content in the obvious way, from the definition.
func wantPieces(t *rapid.T, p Params, b []byte) []Piece {
	var pieces []Piece
	for len(b) > 0 {
		if n := leadingHole(b); n > 0 {
			pieces = append(pieces, Piece{Length: int64(n)})
			b = b[n:]
			continue
		}
		n := 0
		for n < len(b) && leadingHole(b[n:]) == 0 {
			n += min(BlockSize, len(b)-n)
		}
		rabin := chunker.NewWithBoundaries(bytes.NewReader(b[:n]), chunker.Pol(p.Polynomial), uint(p.Min), uint(p.Max))
		rabin.SetAverageBits(p.AvgBits)
		for {
			chunk, err := rabin.Next(nil)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("cut: %v", err)
			}
			pieces = append(pieces, Piece{Length: int64(chunk.Length), Data: chunk.Data})
		}
		b = b[n:]
	}
	return pieces
}

// leadingHole is the length of the hole that b, aligned, begins with.
func leadingHole(b []byte) int {
	n := 0
	for len(b)-n >= BlockSize && bytes.Count(b[n:n+BlockSize], []byte{0}) == BlockSize {
		n += BlockSize
	}
	if rest := b[n:]; n > 0 && len(rest) < BlockSize && bytes.Count(rest, []byte{0}) == len(rest) {
		n = len(b)
	}
	return n
}

// drawContent draws runs of noise and zeros of lengths around the interesting ones.
func drawContent(t *rapid.T) []byte {
	lengths := rapid.OneOf(
		rapid.IntRange(1, 3*BlockSize),
		rapid.SampledFrom([]int{1, 4096, BlockSize - 1, BlockSize, BlockSize + 1, 2 * BlockSize, 8 * BlockSize, 9*BlockSize + 4096}),
	)
	noise := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	var b []byte
	for range rapid.IntRange(0, 8).Draw(t, "runs") {
		run := make([]byte, lengths.Draw(t, "length"))
		if rapid.Bool().Draw(t, "data") {
			for i := range run {
				run[i] = byte(noise.Uint32())
			}
		}
		b = append(b, run...)
	}
	return b
}

func samePieces(a, b Piece) bool {
	return a.Length == b.Length && (a.Data == nil) == (b.Data == nil) && bytes.Equal(a.Data, b.Data)
}

// Sparse and fully written copies of a file give the same pieces, those of the
// definition, whose concatenation is the content.
func TestCutIsCanonical(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := drawContent(t)
		want := wantPieces(t, smallParams, b)
		if !bytes.Equal(content(want), b) {
			t.Fatalf("the definition loses bytes")
		}
		full := writeFile(t, dir, b)
		defer full.Close()
		holes := writeSparse(t, dir, b, rapid.SampledFrom([]int{4096, BlockSize, 1000}).Draw(t, "grain"))
		defer holes.Close()
		for name, src := range map[string]Source{
			"memory":         bytes.NewReader(b),
			"full":           FD(full.Fd()),
			"full, seeking":  SparseFD(full.Fd()),
			"holes":          FD(holes.Fd()),
			"holes, seeking": SparseFD(holes.Fd()),
		} {
			if got := collect(t, smallParams, src, int64(len(b))); !slices.EqualFunc(got, want, samePieces) {
				t.Fatalf("%s: pieces %v, want %v", name, lengths(got), lengths(want))
			}
		}
	})
}

// lengths describes pieces: holes are negative.
func lengths(pieces []Piece) []int64 {
	var l []int64
	for _, p := range pieces {
		if p.Data == nil {
			l = append(l, -p.Length)
		} else {
			l = append(l, p.Length)
		}
	}
	return l
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func writeFile(t fataler, dir string, b []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatalf("write: %v", err)
	}
	return f
}

// writeSparse leaves out the grains of b that are zero.
func writeSparse(t fataler, dir string, b []byte, grain int) *os.File {
	t.Helper()
	f := writeFile(t, dir, nil)
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatalf("truncate: %v", err)
	}
	for off := 0; off < len(b); off += grain {
		piece := b[off:min(off+grain, len(b))]
		if bytes.Count(piece, []byte{0}) == len(piece) {
			continue
		}
		if _, err := f.WriteAt(piece, int64(off)); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	return f
}

// Where restic/chunker cuts, this package does, with the default parameters and
// in data of all sorts.
func TestCutsAreThoseOfRestic(t *testing.T) {
	noise := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 24<<20)
	for i := range b {
		switch mib := i >> 20; {
		case mib < 9: // nowhere cut but at the longest chunks
			b[i] = 1
		case mib%3 == 0: // noise
			b[i] = byte(noise.Uint32())
		case mib%3 == 1: // text of few letters
			b[i] = "abc\n"[noise.IntN(4)]
		default: // short runs of zeros and ones
			b[i] = byte(i >> 12 & 1)
		}
	}
	for _, p := range []Params{defaultParams(), smallParams, {Polynomial: testPolynomial, Min: 64, Max: 1 << 20, AvgBits: 10}} {
		rabin := chunker.NewWithBoundaries(bytes.NewReader(b), chunker.Pol(p.Polynomial), uint(p.Min), uint(p.Max))
		rabin.SetAverageBits(p.AvgBits)
		for i, got := range collect(t, p, bytes.NewReader(b), int64(len(b))) {
			want, err := rabin.Next(nil)
			if err != nil || !bytes.Equal(got.Data, want.Data) {
				t.Fatalf("%+v: chunk %d has %d bytes, of restic %d, %v", p, i, len(got.Data), want.Length, err)
			}
		}
	}
}

func TestHoles(t *testing.T) {
	const b = BlockSize
	data := func(n int) []byte { return bytes.Repeat([]byte{1}, n) }
	hole := func(n int) []byte { return make([]byte, n) }
	cases := []struct {
		name string
		b    []byte
		want []int64
	}{
		{"empty", nil, nil},
		{"short zeros are data", hole(b - 1), []int64{b - 1}},
		{"one block", hole(b), []int64{-b}},
		{"a short block joins the hole before it", hole(2*b + 5), []int64{-2*b - 5}},
		{"a short block behind data is data", append(data(b), hole(5)...), []int64{b + 5}},
		{"zeros across blocks that fill none", append(append(data(b/2), hole(b)...), data(b/2)...), []int64{2 * b}},
		{"only whole blocks", append(append(data(1), hole(3*b)...), data(1)...), []int64{b, -2 * b, 2}},
		{"ends in a hole", append(data(b), hole(b+9)...), []int64{b, -b - 9}},
		{"hole longer than a window", append(hole(9*b), data(1)...), []int64{-9 * b, 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := defaultParams()
			if got := lengths(collect(t, p, bytes.NewReader(c.b), int64(len(c.b)))); !slices.Equal(got, c.want) {
				t.Errorf("pieces %v, want %v", got, c.want)
			}
			f := writeSparse(t, t.TempDir(), c.b, 4096)
			defer f.Close()
			if got := lengths(collect(t, p, SparseFD(f.Fd()), int64(len(c.b)))); !slices.Equal(got, c.want) {
				t.Errorf("sparse: pieces %v, want %v", got, c.want)
			}
		})
	}
}

func TestHugeHoleIsNotRead(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 10<<30 + 4096
	if _, err := f.WriteAt(bytes.Repeat([]byte{7}, 4096), 10<<30); err != nil {
		t.Fatal(err)
	}
	c := NewCutter(defaultParams())
	c.Reset(SparseFD(f.Fd()), size)
	buf := make([]byte, DefaultMax)
	for _, want := range []int64{10 << 30, 4096} {
		piece, err := c.Next(buf)
		if err != nil || piece.Length != want {
			t.Fatalf("piece of %d bytes, %v; want %d", piece.Length, err, want)
		}
	}
	if _, err := c.Next(buf); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
	if c.BytesRead() != 4096 {
		t.Errorf("read %d bytes, want 4096", c.BytesRead())
	}
}

// A source that holds more than its size is not read further, one that holds
// less ends early.
func TestSizeBoundsReading(t *testing.T) {
	b := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	got := collect(t, smallParams, bytes.NewReader(b), 1_000_001)
	if !bytes.Equal(content(got), b[:1_000_001]) {
		t.Error("content of a grown file is not its first bytes")
	}
	got = collect(t, smallParams, bytes.NewReader(b), int64(len(b))+12345)
	if !bytes.Equal(content(got), b) {
		t.Error("content of a shrunk file is not what was left")
	}
	f := writeFile(t, t.TempDir(), b)
	defer f.Close()
	got = collect(t, smallParams, SparseFD(f.Fd()), int64(len(b))+12345)
	if total := int64(len(content(got))); total < int64(len(b)) {
		t.Errorf("a shrunk sparse file has %d bytes, want at least %d", total, len(b))
	}
}

type failing struct{ *bytes.Reader }

var errFailing = errors.New("failing")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off >= 1<<20 {
		return 0, errFailing
	}
	return f.Reader.ReadAt(p, off)
}

func TestErrorOfSource(t *testing.T) {
	b := bytes.Repeat([]byte{1}, 4<<20)
	c := NewCutter(smallParams)
	c.Reset(failing{bytes.NewReader(b)}, int64(len(b)))
	for {
		_, err := c.Next(nil)
		if errors.Is(err, errFailing) {
			break
		}
		if err != nil {
			t.Fatalf("error %v, want that of the source", err)
		}
	}
	c.Reset(bytes.NewReader(b), 10)
	if piece, err := c.Next(nil); err != nil || piece.Length != 10 {
		t.Errorf("after Reset: %d bytes, %v", piece.Length, err)
	}
}

// An insertion near the start changes the chunks near it and no others.
func TestCutsFollowContent(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 4<<20)
	for i := range b {
		b[i] = byte(noise.Uint32())
	}
	before := collect(t, smallParams, bytes.NewReader(b), int64(len(b)))
	edited := append([]byte("inserted"), b...)
	after := collect(t, smallParams, bytes.NewReader(edited), int64(len(edited)))
	known := map[string]bool{}
	for _, p := range before {
		known[string(p.Data)] = true
	}
	fresh := 0
	for _, p := range after {
		if len(p.Data) > smallParams.Max {
			t.Errorf("chunk of %d bytes", len(p.Data))
		}
		if !known[string(p.Data)] {
			fresh++
		}
	}
	if fresh > 3 || len(after) < 50 {
		t.Errorf("%d of %d chunks are new", fresh, len(after))
	}
}

func TestParams(t *testing.T) {
	p, err := NewParams()
	if err != nil || p.Check() != nil {
		t.Fatalf("drawn parameters: %v, %v", err, p.Check())
	}
	for name, change := range map[string]func(*Params){
		"no polynomial":   func(p *Params) { p.Polynomial = 0 },
		"reducible":       func(p *Params) { p.Polynomial = 1 << 53 },
		"degree too high": func(p *Params) { p.Polynomial = 1<<60 | 1 },
		"tiny chunks":     func(p *Params) { p.Min = 10 },
		"max below min":   func(p *Params) { p.Max = p.Min - 1 },
		"huge chunks":     func(p *Params) { p.Max = MaxChunk + 1 },
		"no bits":         func(p *Params) { p.AvgBits = 0 },
	} {
		q := p
		change(&q)
		if !errors.Is(q.Check(), ErrBadParams) {
			t.Errorf("%s: %v", name, q.Check())
		}
	}
}

func BenchmarkCut(b *testing.B) {
	noise := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 64<<20)
	for i := range data {
		data[i] = byte(noise.Uint32())
	}
	fd, err := unix.MemfdCreate("cut", 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, data); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, DefaultMax)
	c := NewCutter(defaultParams())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c.Reset(FD(fd), int64(len(data)))
		for {
			if _, err := c.Next(buf); err != nil {
				break
			}
		}
	}
}

func BenchmarkZeros(b *testing.B) {
	c := NewCutter(defaultParams())
	src := bytes.NewReader(make([]byte, 64<<20))
	b.SetBytes(src.Size())
	for b.Loop() {
		c.Reset(src, src.Size())
		for {
			if _, err := c.Next(nil); err != nil {
				break
			}
		}
	}
}
