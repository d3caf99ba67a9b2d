package transport_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// wantRate checks that so many bytes took the time that they should.
func wantRate(t *testing.T, what string, bytes, limit int64, elapsed time.Duration) {
	t.Helper()
	want := float64(bytes) / float64(limit)
	t.Logf("%s: %d bytes at %d a second took %.2fs, want %.2fs", what, bytes, limit, elapsed.Seconds(), want)
	if math.Abs(elapsed.Seconds()-want) > 0.03*want {
		t.Errorf("%s: took %v", what, elapsed)
	}
}

// TestLimits has ten goroutines transfer the bytes of five seconds, half of
// them in bulk.
func TestLimits(t *testing.T) {
	const seconds, goroutines, rounds = 5, 10, 10
	for _, limit := range []int64{60, 10_000, 1_000_000, 20_000_000} {
		bubble(t, func(t *testing.T) {
			s := transport.New(mem.New(), transport.Options{UploadLimit: limit, DownloadLimit: limit, Bulk: packsAreBulk})
			content := strings.Repeat("x", int(limit*seconds/goroutines/rounds))
			together := func(transfer func(key string) error) time.Duration {
				return took(func() {
					var wg sync.WaitGroup
					for i := range goroutines {
						wg.Go(func() {
							for range rounds {
								if err := transfer(fmt.Sprintf("%s/%d", []string{"packs", "small"}[i%2], i)); err != nil {
									t.Error(err)
								}
							}
						})
					}
					wg.Wait()
				})
			}
			up := together(func(key string) error { return put(t.Context(), s, key, content) })
			wantRate(t, "up", limit*seconds, limit, up)
			down := together(func(key string) error { _, err := get(t.Context(), s, key); return err })
			wantRate(t, "down", limit*seconds, limit, down)
			if s.Counts().BytesUp != limit*seconds || s.Counts().BytesDown != limit*seconds {
				t.Errorf("%+v", s.Counts())
			}
		})
	}
}

func TestPacedContentIsWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, content := mem.New(), letters(10_001)
		s := transport.New(inner, transport.Options{UploadLimit: 1000, DownloadLimit: 1000})
		if err := put(t.Context(), s, "a", content); err != nil {
			t.Error(err)
		}
		if got, err := get(t.Context(), inner, "a"); got != content || err != nil {
			t.Errorf("stored %d other bytes, %v", len(got), err)
		}
		if got, err := get(t.Context(), s, "a"); got != content || err != nil {
			t.Errorf("read %d other bytes, %v", len(got), err)
		}
	})
}

// greedy reads bodies into a buffer that is larger than they are.
type greedy struct{ *mem.Store }

func (s greedy) Put(_ context.Context, _ string, body objectstore.Body, _ objectstore.PutOptions) (objectstore.Info, error) {
	n, err := body.ReadAt(make([]byte, 32<<10), 0)
	if int64(n) != body.Size() || err != io.EOF {
		return objectstore.Info{}, fmt.Errorf("%d bytes, %v", n, err)
	}
	return objectstore.Info{}, nil
}

func TestOnlyBytesOfTheBodyArePaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(greedy{mem.New()}, transport.Options{UploadLimit: 1000})
		elapsed := took(func() {
			for range 100 {
				if err := put(t.Context(), s, "a", "content"); err != nil {
					t.Error(err)
				}
			}
		})
		if elapsed > 800*time.Millisecond {
			t.Errorf("700 bytes at 1000 a second took %v", elapsed)
		}
	})
}

// TestCancelledWaitIsNotPaid has many requests wait for their pace and cancels
// them: the next does not wait for what they would have sent.
func TestCancelledWaitIsNotPaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(mem.New(), transport.Options{UploadLimit: 1000})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { _ = put(ctx, s, fmt.Sprint(i), strings.Repeat("x", 50)) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if elapsed := took(func() { _ = put(t.Context(), s, "a", strings.Repeat("x", 50)) }); elapsed > 60*time.Millisecond {
			t.Errorf("took %v", elapsed)
		}
	})
}

func TestNoLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(mem.New(), transport.Options{Bulk: packsAreBulk})
		elapsed := took(func() {
			for _, key := range []string{"packs/1", "a"} {
				if err := put(t.Context(), s, key, strings.Repeat("x", 1<<20)); err != nil {
					t.Error(err)
				}
				if _, err := get(t.Context(), s, key); err != nil {
					t.Error(err)
				}
			}
		})
		if elapsed != 0 {
			t.Errorf("took %v", elapsed)
		}
	})
}

// meter is a body that notes when its bytes were read.
type meter struct {
	*strings.Reader
	start time.Time
	limit float64
	worst time.Duration // how far reading was off its pace
	read  int64
}

func (m *meter) ReadAt(p []byte, offset int64) (int, error) {
	n, err := m.Reader.ReadAt(p, offset)
	m.read += int64(n)
	due := time.Duration(float64(m.read) / m.limit * float64(time.Second))
	m.worst = max(m.worst, (due - time.Since(m.start)).Abs())
	return n, err
}

// TestPaceIsSmooth checks that no more than a twentieth of a second's bytes
// pass early or late.
func TestPaceIsSmooth(t *testing.T) {
	for _, limit := range []int64{100, 100_000, 10_000_000} {
		bubble(t, func(t *testing.T) {
			s := transport.New(mem.New(), transport.Options{UploadLimit: limit, DownloadLimit: limit})
			body := &meter{Reader: strings.NewReader(strings.Repeat("x", int(3*limit))), start: time.Now(), limit: float64(limit)}
			if _, err := s.Put(t.Context(), "a", body, objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			reader, err := s.Get(t.Context(), "a", objectstore.Range{})
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			start, got := time.Now(), 0
			buffer := make([]byte, 3*limit)
			for got < len(buffer) {
				n, err := reader.Read(buffer[got:])
				if err != nil {
					t.Fatal(err)
				}
				got += n
				due := time.Duration(float64(got) / float64(limit) * float64(time.Second))
				body.worst = max(body.worst, (due - time.Since(start)).Abs())
			}
			if body.worst > 60*time.Millisecond {
				t.Errorf("at %d a second bytes were %v off", limit, body.worst)
			}
		})
	}
}

// TestControlIsPacedBeforeBulk reads and writes a small object while many bulk
// transfers fill a slow line.
func TestControlIsPacedBeforeBulk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := holding(t, "packs/old", strings.Repeat("x", 100_000))
		s := transport.New(inner, transport.Options{UploadLimit: 10_000, DownloadLimit: 10_000, Bulk: packsAreBulk})
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() { _ = put(t.Context(), s, fmt.Sprintf("packs/%d", i), strings.Repeat("x", 10_000)) })
			wg.Go(func() { _, _ = get(t.Context(), s, "packs/old") })
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if elapsed := took(func() { _ = put(t.Context(), s, "small", strings.Repeat("x", 100)) }); elapsed > 200*time.Millisecond {
			t.Errorf("a small put took %v", elapsed)
		}
		if elapsed := took(func() { _, _ = get(t.Context(), s, "small") }); elapsed > 200*time.Millisecond {
			t.Errorf("a small get took %v", elapsed)
		}
		wg.Wait()
	})
}

// TestPacedIsNotStalled has transfers wait for their pace longer than an
// attempt may stall.
func TestPacedIsNotStalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(mem.New(), transport.Options{UploadLimit: 1000, DownloadLimit: 1000, StallTimeout: time.Second, MaxConcurrent: 100, Bulk: packsAreBulk})
		var wg sync.WaitGroup
		for i := range 100 { // a slice of each takes 5 seconds
			wg.Go(func() {
				key := fmt.Sprintf("packs/%d", i)
				if err := put(t.Context(), s, key, strings.Repeat("x", 500)); err != nil {
					t.Error(err)
				}
				if _, err := get(t.Context(), s, key); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.Counts().Retries != 0 {
			t.Errorf("%d retries", s.Counts().Retries)
		}
	})
}
