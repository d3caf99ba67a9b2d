package transport_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// breaking reads part of a body and then fails, the first few times.
type breaking struct {
	objectstore.Store
	times int
}

func (s *breaking) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if s.times == 0 {
		return s.Store.Put(ctx, key, body, opts)
	}
	s.times--
	_, err := body.ReadAt(make([]byte, body.Size()/2+1), 0)
	return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: errors.Join(objectstore.ErrUnavailable, err)}
}

func TestPutReadsItsBodyAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		content := strings.Repeat("0123456789", 1000)
		s := transport.New(&breaking{inner, 5}, transport.Options{})
		body := strings.NewReader(content)
		if _, err := s.Put(t.Context(), "a", body, objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t.Context(), inner, "a"); got != content || err != nil {
			t.Errorf("stored %d bytes, %v", len(got), err)
		}
	})
}

// brokenBody cannot be read behind its tenth byte.
type brokenBody struct{ *strings.Reader }

var errDisk = errors.New("disk is broken")

func (b brokenBody) ReadAt(p []byte, offset int64) (int, error) {
	if offset+int64(len(p)) > 10 {
		return 0, errDisk
	}
	return b.Reader.ReadAt(p, offset)
}

// TestBrokenBodyIsNotRetried has a store that takes a broken body for a broken
// connection.
func TestBrokenBodyIsNotRetried(t *testing.T) {
	for body, cause := range map[objectstore.Body]error{
		brokenBody{strings.NewReader("much more than ten bytes")}: errDisk,
		bodyOf{unavailable{}, 16}:                                 objectstore.ErrUnavailable,
		bodyOf{strings.NewReader("short"), 16}:                    io.ErrUnexpectedEOF,
	} {
		s := transport.New(&breaking{mem.New(), 5}, transport.Options{})
		_, err := s.Put(t.Context(), "a", body, objectstore.PutOptions{})
		wantError(t, err, fault.Put, cause)
		if s.Counts().Put != 1 {
			t.Errorf("%d puts of a body that cannot be read", s.Counts().Put)
		}
	}
}

// hashing reads each body for a checksum before it sends it.
type hashing struct{ objectstore.Store }

func (s hashing) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	unsent := objectstore.Unsent(body)
	if _, err := io.Copy(io.Discard, io.NewSectionReader(unsent, 0, unsent.Size())); err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: errors.Join(objectstore.ErrUnavailable, err)}
	}
	return s.Store.Put(ctx, key, body, opts)
}

// What is read for a checksum is not sent: it is neither counted nor slowed down.
func TestUnsentBodyIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 100_000
		s := transport.New(hashing{mem.New()}, transport.Options{UploadLimit: size})
		start := time.Now()
		if err := put(t.Context(), s, "a", letters(size)); err != nil {
			t.Fatal(err)
		}
		if sent, took := s.Counts().BytesUp, time.Since(start); sent != size || took > time.Second {
			t.Errorf("%d bytes sent in %v, want %d in a second", sent, took, size)
		}
	})
}

func TestBrokenBodyIsNotRetriedForItsChecksum(t *testing.T) {
	s := transport.New(hashing{mem.New()}, transport.Options{})
	_, err := s.Put(t.Context(), "a", brokenBody{strings.NewReader("much more than ten bytes")}, objectstore.PutOptions{})
	wantError(t, err, fault.Put, errDisk)
	if s.Counts().Put != 1 {
		t.Errorf("%d puts of a body that cannot be read", s.Counts().Put)
	}
}

// unavailable is a body that comes from a store which does not answer.
type unavailable struct{}

func (unavailable) ReadAt([]byte, int64) (int, error) { return 0, objectstore.ErrUnavailable }

type bodyOf struct {
	io.ReaderAt
	size int64
}

func (b bodyOf) Size() int64 { return b.size }

// lossy answers the first put with a lost answer, whatever becomes of it.
func lossy(inner objectstore.Store, more ...fault.Injector) *fault.Store {
	return fault.New(inner, append([]fault.Injector{first(1, fault.Put, fault.LoseAck(objectstore.ErrUnavailable))}, more...)...)
}

// deaf fails the first put without doing it, as if its answer were lost.
func deaf(inner objectstore.Store, err error, more ...fault.Injector) *fault.Store {
	return fault.New(inner, append([]fault.Injector{first(1, fault.Put, fault.Fail(err))}, more...)...)
}

func putNew(t *testing.T, s objectstore.Store, content string) (objectstore.Info, error) {
	t.Helper()
	return s.Put(t.Context(), "a", strings.NewReader(content), objectstore.PutOptions{IfAbsent: true})
}

func TestOwnObjectAfterLostAnswerIsSuccess(t *testing.T) {
	for _, size := range []int{0, 1, 32 << 10, 100_000} {
		bubble(t, func(t *testing.T) {
			inner := &tracking{Store: mem.New()}
			info, err := putNew(t, transport.New(lossy(inner), transport.Options{}), letters(size))
			if stat, statErr := inner.Stat(t.Context(), "a"); err != nil || info != stat || statErr != nil {
				t.Errorf("%d bytes: %+v, %v; the object is %+v", size, info, err, stat)
			}
			if inner.open != 0 || len(inner.contexts) != 1 {
				t.Errorf("%d of %d bodies are open", inner.open, len(inner.contexts))
			}
		})
	}
}

func TestOwnChangeAfterLostAnswerIsSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := holding(t, "a", "old")
		old, _ := inner.Stat(t.Context(), "a")
		s := transport.New(lossy(inner), transport.Options{})
		info, err := s.Put(t.Context(), "a", strings.NewReader("new"), objectstore.PutOptions{IfMatch: old.ETag})
		if stat, _ := inner.Stat(t.Context(), "a"); err != nil || info != stat || info.ETag == old.ETag {
			t.Errorf("%+v, %v; the object is %+v", info, err, stat)
		}
	})
}

func TestObjectOfAnotherIsRefused(t *testing.T) {
	content := strings.Repeat("x", 100_000)
	for name, other := range map[string]string{
		"shorter":   "x",
		"same size": content[1:] + "y",
		"longer":    content + "x",
		"early":     "y" + content[1:],
		"empty":     "",
	} {
		bubble(t, func(t *testing.T) {
			s := transport.New(deaf(holding(t, "a", other), objectstore.ErrUnavailable), transport.Options{})
			_, err := putNew(t, s, content)
			wantError(t, err, fault.Put, objectstore.ErrExist)
			if errors.Is(err, objectstore.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestOnlyLostAnswersAreInDoubt puts what is there already: another's put of
// equal content, unless an answer was lost.
func TestOnlyLostAnswersAreInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := holding(t, "a", "same")
		_, err := putNew(t, transport.New(inner, transport.Options{}), "same")
		wantError(t, err, fault.Put, objectstore.ErrExist)
		_, err = putNew(t, transport.New(deaf(inner, objectstore.ErrThrottled), transport.Options{}), "same")
		wantError(t, err, fault.Put, objectstore.ErrExist)
	})
}

// TestDoubtIsNeverRefusal checks that a put whose object cannot be read back
// does not claim that it was another's.
func TestDoubtIsNeverRefusal(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Stat, fault.Get} {
		bubble(t, func(t *testing.T) {
			inner := mem.New()
			s := transport.New(lossy(inner, fault.On(kind, "", fault.Fail(objectstore.ErrDenied))), transport.Options{})
			_, err := putNew(t, s, "mine")
			wantError(t, err, fault.Put, objectstore.ErrDenied)
			if errors.Is(err, objectstore.ErrExist) {
				t.Errorf("with no %s: %v", kind, err)
			}
		})
	}
}

func TestObjectThatVanishedIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(lossy(mem.New(), fault.On(fault.Stat, "", fault.Fail(objectstore.ErrNotExist))), transport.Options{})
		_, err := putNew(t, s, "mine")
		wantError(t, err, fault.Put, objectstore.ErrExist)
	})
}

// TestObjectReplacedWhileReadBack must not get the ETag of another's object.
func TestObjectReplacedWhileReadBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, stats := mem.New(), 0
		replace := func(op fault.Op) fault.Fault {
			if op.Kind == fault.Stat {
				if stats++; stats == 2 {
					_ = put(context.Background(), inner, "a", "thine")
				}
			}
			return fault.Fault{}
		}
		info, err := putNew(t, transport.New(lossy(inner, replace), transport.Options{}), "mine")
		wantError(t, err, fault.Put, objectstore.ErrExist)
		if stats != 2 || info.ETag != "" {
			t.Errorf("%+v after %d stats", info, stats)
		}
	})
}
