package transport_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestStalledBodyGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		content := letters(100)
		faults := fault.New(holding(t, "packs/1", content), first(1, fault.Get, fault.Stall(40)))
		s := transport.New(faults, transport.Options{StallTimeout: time.Minute, Immutable: []string{"packs/"}})
		var got string
		var err error
		elapsed := took(func() { got, err = readRange(t.Context(), s, "packs/1", objectstore.Range{}) })
		if got != content || err != nil || elapsed < time.Minute || elapsed > 61*time.Second {
			t.Errorf("%d bytes, %v in %v", len(got), err, elapsed)
		}
	})
}

// TestSlowIsNotStalled has a store that sends a byte in 50 seconds, and a
// consumer that takes its time after each.
func TestSlowIsNotStalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(dripping{holding(t, "a", "content")}, transport.Options{StallTimeout: time.Minute})
		reader, err := s.Get(t.Context(), "a", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var got []byte
		for range len("content") {
			time.Sleep(time.Hour)
			var b [10]byte
			n, err := reader.Read(b[:])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b[:n]...)
		}
		if string(got) != "content" {
			t.Errorf("%q", got)
		}
	})
}

// dripping sends a byte in 50 seconds.
type dripping struct{ *mem.Store }

func (s dripping) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, r)
	return dripper{ctx, body}, err
}

type dripper struct {
	ctx context.Context
	io.ReadCloser
}

func (d dripper) Read(p []byte) (int, error) {
	select {
	case <-time.After(50 * time.Second):
		return d.ReadCloser.Read(p[:1])
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func TestCloseEndsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(fault.New(holding(t, "packs/1", "content"), always(fault.Stall(3))), immutable)
		reader, err := s.Get(t.Context(), "packs/1", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := io.ReadAll(reader)
			done <- err
		}()
		synctest.Wait()
		if elapsed := took(func() { err = reader.Close() }); err != nil || elapsed != 0 {
			t.Errorf("close: %v in %v", err, elapsed)
		}
		if err := <-done; err == nil {
			t.Error("the read went well")
		}
		if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
		if err := reader.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// tracking counts the bodies that are open, and their contexts that live.
type tracking struct {
	*mem.Store
	open     int
	contexts []context.Context
}

func (s *tracking) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	s.open++
	s.contexts = append(s.contexts, ctx)
	return &trackedBody{body, s, false}, nil
}

type trackedBody struct {
	io.ReadCloser
	store  *tracking
	closed bool
}

func (b *trackedBody) Close() error {
	if !b.closed {
		b.store.open--
	}
	b.closed = true
	return b.ReadCloser.Close()
}

func TestCloseFreesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := &tracking{Store: holding(t, "packs/1", letters(100))}
		s := transport.New(fault.New(inner, first(3, fault.Get, fault.CutShort(10, objectstore.ErrUnavailable))), immutable)
		reader, err := s.Get(t.Context(), "packs/1", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(reader, make([]byte, 50)); err != nil {
			t.Error(err)
		}
		if inner.open != 1 {
			t.Errorf("%d bodies are open while the last is read", inner.open)
		}
		for i, ctx := range inner.contexts[:3] {
			if ctx.Err() == nil {
				t.Errorf("the context of attempt %d outlives it", i+1)
			}
		}
		if err := reader.Close(); err != nil || inner.open != 0 {
			t.Errorf("%d bodies are open after close, %v", inner.open, err)
		}
		if inner.contexts[3].Err() == nil {
			t.Error("the context of the last attempt outlives its reader")
		}
	})
}
