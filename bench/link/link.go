// Package link puts a network between a client and an HTTP server on this
// machine: it delays requests, limits the rate of bodies, and counts.
package link

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Link is a reverse proxy on a free port of the loopback. Close ends it.
type Link struct {
	URL string // http://127.0.0.1:PORT

	server *http.Server
	proxy  *httputil.ReverseProxy
	served sync.WaitGroup

	mu      sync.Mutex // guards the following
	delay   time.Duration
	limiter *rate.Limiter // nil: none
	counts  Counts
}

// Counts are what passed since the last call of Reset.
type Counts struct {
	Requests map[string]int // by method
	Bytes    int64          // of bodies, both ways
}

// Total is the number of requests.
func (c Counts) Total() int {
	sum := 0
	for _, n := range c.Requests {
		sum += n
	}
	return sum
}

// Since is what passed after before, which was counted earlier.
func (c Counts) Since(before Counts) Counts {
	since := Counts{Requests: map[string]int{}, Bytes: c.Bytes - before.Bytes}
	for method, n := range c.Requests {
		if n -= before.Requests[method]; n > 0 {
			since.Requests[method] = n
		}
	}
	return since
}

// New starts a link to the server at target.
func New(target string) (*Link, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{URL: "http://" + listener.Addr().String()}
	l.Reset(0, 0)
	l.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:      &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		ModifyResponse: func(r *http.Response) error { r.Body = l.paced(r.Request.Context(), r.Body); return nil },
		BufferPool:     new(buffers),
	}
	l.server = &http.Server{Handler: l}
	l.served.Go(func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // nothing else is listening there
		}
	})
	return l, nil
}

// Close ends the link and every connection.
func (l *Link) Close() error {
	err := l.server.Close()
	l.served.Wait()
	return err
}

// Reset sets the delay of each request and the bytes a second of all bodies
// together, 0 being no limit, and starts counting anew.
func (l *Link) Reset(delay time.Duration, bytesPerSecond int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.limiter = delay, nil
	if bytesPerSecond > 0 {
		l.limiter = rate.NewLimiter(rate.Limit(bytesPerSecond), slice)
	}
	l.counts = Counts{Requests: map[string]int{}}
}

// Counts returns what passed so far.
func (l *Link) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := Counts{Requests: map[string]int{}, Bytes: l.counts.Bytes}
	for method, n := range l.counts.Requests {
		counts.Requests[method] = n
	}
	return counts
}

// ServeHTTP implements http.Handler.
func (l *Link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.counts.Requests[r.Method]++
	delay := l.delay
	l.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	r.Body = l.paced(r.Context(), r.Body)
	l.proxy.ServeHTTP(w, r)
}

// slice is what passes at once, in bytes.
const slice = 32 << 10

// paced is a body that arrives no faster than the link.
func (l *Link) paced(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &pacedBody{link: l, ctx: ctx, limiter: l.limiter, ReadCloser: body}
}

type pacedBody struct {
	io.ReadCloser
	link    *Link
	ctx     context.Context
	limiter *rate.Limiter
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), slice)])
	b.link.mu.Lock()
	b.link.counts.Bytes += int64(n)
	b.link.mu.Unlock()
	if b.limiter != nil && n > 0 {
		if waitErr := b.limiter.WaitN(b.ctx, n); waitErr != nil {
			return 0, waitErr
		}
	}
	return n, err
}

// buffers lends what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 256<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
