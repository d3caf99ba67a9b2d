package transport_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

var immutable = transport.Options{Immutable: []string{"packs/"}}

// letters is content in which every part is different from its neighbours.
func letters(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range n {
		b.WriteByte(byte('a' + r.IntN(26)))
	}
	return b.String()
}

func readRange(ctx context.Context, s objectstore.Store, key string, r objectstore.Range) (string, error) {
	reader, err := s.Get(ctx, key, r)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(reader)
	return string(content), errors.Join(err, reader.Close())
}

func TestBrokenBodiesGoOn(t *testing.T) {
	content := letters(1000)
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.Int64Range(0, 600), 0, 9).Draw(rt, "cuts")
		offset := rapid.Int64Range(0, 999).Draw(rt, "offset")
		length := rapid.Int64Range(0, 1200).Draw(rt, "length")
		cause := rapid.SampledFrom([]error{objectstore.ErrUnavailable, objectstore.ErrThrottled, io.ErrUnexpectedEOF}).Draw(rt, "cause")
		left := cuts
		faults := fault.New(holding(t, "packs/1", content), func(fault.Op) fault.Fault {
			if len(left) == 0 {
				return fault.Fault{}
			}
			cut := left[0]
			left = left[1:]
			return fault.CutShort(cut, cause)
		})
		end := min(1000, offset+length)
		if length == 0 {
			end = 1000
		}
		s := transport.New(faults, transport.Options{Immutable: []string{"packs/"}, MaxWait: 1})
		got, err := readRange(t.Context(), s, "packs/1", objectstore.Range{Offset: offset, Length: length})
		if got != content[offset:end] || err != nil {
			rt.Fatalf("%d bytes, %v, want %d", len(got), err, end-offset)
		}
		if down := s.Counts().BytesDown; down != end-offset {
			rt.Fatalf("%d bytes came, want %d", down, end-offset)
		}
	})
}

func TestOnlyImmutableObjectsGoOn(t *testing.T) {
	faults := fault.New(holding(t, "a", "content"), first(1, fault.Get, fault.CutShort(3, objectstore.ErrUnavailable)))
	s := transport.New(faults, immutable)
	got, err := readRange(t.Context(), s, "a", objectstore.Range{})
	wantError(t, err, fault.Get, objectstore.ErrUnavailable)
	if got != "con" || faults.Calls() != 1 {
		t.Errorf("%q after %d requests", got, faults.Calls())
	}
}

func TestOtherErrorsOfBodiesAreFinal(t *testing.T) {
	faults := fault.New(holding(t, "packs/1", "content"), first(1, fault.Get, fault.CutShort(3, fault.ErrInjected)))
	got, err := readRange(t.Context(), transport.New(faults, immutable), "packs/1", objectstore.Range{})
	if got != "con" || !errors.Is(err, fault.ErrInjected) || faults.Calls() != 1 {
		t.Errorf("%q, %v after %d requests", got, err, faults.Calls())
	}
}

// lateBreak fails where a body should end.
type lateBreak struct{ objectstore.Store }

func (s lateBreak) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	return lateBreaker{body}, nil
}

type lateBreaker struct{ io.ReadCloser }

func (b lateBreaker) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		err = objectstore.ErrUnavailable
	}
	return n, err
}

func TestBreakBehindTheLastByteIsTheEnd(t *testing.T) {
	for _, r := range []objectstore.Range{{}, {Offset: 3}, {Length: 5}, {Offset: 2, Length: 5}, {Length: 100}, {Offset: 6, Length: 10}} {
		bubble(t, func(t *testing.T) {
			const content = "0123456"
			want := content[r.Offset:]
			if r.Length > 0 {
				want = content[r.Offset:min(7, r.Offset+r.Length)]
			}
			s := transport.New(lateBreak{holding(t, "packs/1", content)}, immutable)
			got, err := readRange(t.Context(), s, "packs/1", r)
			if got != want || err != nil {
				t.Errorf("range %+v: %q, %v, want %q", r, got, err, want)
			}
		})
	}
}

func TestResumesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		faults := fault.New(holding(t, "packs/1", letters(100)), always(fault.CutShort(1, objectstore.ErrUnavailable)))
		got, err := readRange(t.Context(), transport.New(faults, immutable), "packs/1", objectstore.Range{})
		if !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "attempt 10") || len(got) != 10 || faults.Calls() != 10 {
			t.Errorf("%d bytes, %v after %d requests", len(got), err, faults.Calls())
		}
	})
}

// TestBytesEndTrouble breaks a body five times, for half of the time each that
// is allowed between a failure and the next byte.
func TestBytesEndTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		content := letters(100)
		wait := &objectstore.Wait{For: 30 * time.Second, Err: objectstore.ErrUnavailable}
		faults := fault.New(holding(t, "packs/1", content), first(5, fault.Get, fault.CutShort(1, wait)))
		s := transport.New(faults, transport.Options{MaxElapsed: time.Minute, Immutable: []string{"packs/"}})
		got, err := readRange(t.Context(), s, "packs/1", objectstore.Range{})
		if got != content || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
