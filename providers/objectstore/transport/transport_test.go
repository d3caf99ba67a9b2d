package transport_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for name, opts := range map[string]transport.Options{
		"defaults":   {},
		"one a time": {MaxConcurrent: 1},
		"paced":      {UploadLimit: 1 << 30, DownloadLimit: 1 << 30, Bulk: []string{"race/", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			objectstoretest.Run(t, func(*testing.T) objectstore.Store { return transport.New(mem.New(), opts) })
		})
	}
}

// TestConformanceOverFaults has every seventh request fail. Puts fail without
// doubt about what they did, as the suite puts equal contents twice.
func TestConformanceOverFaults(t *testing.T) {
	objectstoretest.Run(t, func(*testing.T) objectstore.Store {
		faults := fault.New(mem.New(), func(op fault.Op) fault.Fault {
			switch {
			case op.N%7 != 0:
				return fault.Fault{}
			case op.Kind == fault.Put:
				return fault.Fail(objectstore.ErrThrottled)
			case op.Kind == fault.List:
				return fault.CutShort(int64(op.N%5), objectstore.ErrUnavailable)
			}
			return fault.Fail(objectstore.ErrUnavailable)
		})
		return transport.New(faults, transport.Options{MaxWait: time.Microsecond})
	})
}

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// took is how much fake time f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func put(ctx context.Context, s objectstore.Store, key, content string) error {
	_, err := s.Put(ctx, key, strings.NewReader(content), objectstore.PutOptions{})
	return err
}

func get(ctx context.Context, s objectstore.Store, key string) (string, error) {
	content, err := objectstore.ReadAll(ctx, s, key, 1<<30)
	return string(content), err
}

func list(ctx context.Context, s objectstore.Store, prefix string) (keys []string, err error) {
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return keys, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// holding is a store in memory with one object.
func holding(t *testing.T, key, content string) *mem.Store {
	t.Helper()
	s := mem.New()
	if err := put(t.Context(), s, key, content); err != nil {
		t.Fatal(err)
	}
	return s
}

// first applies a fault to the first n calls of one kind.
func first(n int, kind fault.Kind, f fault.Fault) fault.Injector {
	var mu sync.Mutex
	seen := 0
	return func(op fault.Op) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != kind {
			return fault.Fault{}
		}
		if seen++; seen > n {
			return fault.Fault{}
		}
		return f
	}
}

func always(f fault.Fault) fault.Injector { return func(fault.Op) fault.Fault { return f } }

// hanging is a fault that lasts as long as the context.
func hanging() fault.Fault { return fault.Await(make(chan fault.Fault)) }

// operations has one control request of each kind about object "a".
var operations = map[fault.Kind]func(context.Context, objectstore.Store) error{
	fault.Put:    func(ctx context.Context, s objectstore.Store) error { return put(ctx, s, "a", "new") },
	fault.Get:    func(ctx context.Context, s objectstore.Store) error { _, err := get(ctx, s, "a"); return err },
	fault.Stat:   func(ctx context.Context, s objectstore.Store) error { _, err := s.Stat(ctx, "a"); return err },
	fault.List:   func(ctx context.Context, s objectstore.Store) error { _, err := list(ctx, s, "a"); return err },
	fault.Delete: func(ctx context.Context, s objectstore.Store) error { return s.Delete(ctx, "a") },
}

// network is a store behind one: every request takes a time, and it counts
// those that are under way.
type network struct {
	objectstore.Store
	latency time.Duration

	mu       sync.Mutex // guards the fields below
	capacity int        // requests at a time that are not throttled; 0 means any number
	now      int        // requests under way
	peak     int
	served   int
	refused  int
}

func (n *network) begin(ctx context.Context) error {
	n.mu.Lock()
	n.now++
	n.peak = max(n.peak, n.now)
	throttled := n.capacity > 0 && n.now > n.capacity
	if throttled {
		n.refused++
	} else {
		n.served++
	}
	n.mu.Unlock()
	select {
	case <-time.After(n.latency):
	case <-ctx.Done():
		return ctx.Err()
	}
	if throttled {
		return objectstore.ErrThrottled
	}
	return nil
}

func (n *network) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now--
}

// change sets the capacity and returns what happened since the last change.
func (n *network) change(capacity int) (peak, served, refused int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	peak, served, refused = n.peak, n.served, n.refused
	n.capacity, n.peak, n.served, n.refused = capacity, n.now, 0, 0
	return peak, served, refused
}

func (n *network) underWay() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

func (n *network) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	defer n.end()
	if err := n.begin(ctx); err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: err}
	}
	return n.Store.Put(ctx, key, body, opts)
}

// Get keeps the request under way until its body has ended or is closed.
func (n *network) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	err := n.begin(ctx)
	if err != nil {
		n.end()
		return nil, &objectstore.Error{Op: "get", Key: key, Err: err}
	}
	body, err := n.Store.Get(ctx, key, r)
	if err != nil {
		n.end()
		return nil, err
	}
	return &networkReader{body, sync.OnceFunc(n.end)}, nil
}

type networkReader struct {
	io.ReadCloser
	end func()
}

func (r *networkReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil {
		r.end()
	}
	return n, err
}

func (r *networkReader) Close() error {
	r.end()
	return r.ReadCloser.Close()
}
