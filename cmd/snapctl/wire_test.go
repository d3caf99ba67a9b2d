//go:build servers

package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// wire is a bad line in front of a real server.
type wire struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu     sync.Mutex // guards the following
	random *rand.Rand
	burst  int // requests that are still to be refused
	faults map[string]int
}

func newWire(t *testing.T, endpoint string, seed uint64) *wire {
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{random: rand.New(rand.NewPCG(seed, 0)), faults: map[string]int{}}
	w.proxy = &httputil.ReverseProxy{
		ErrorLog:       log.New(io.Discard, "", 0), // it would tell of every cut
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: w.answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

// draw picks what happens to a request: bursts of SlowDown make up 30 percent.
func (w *wire) draw() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	fault := ""
	switch n := w.random.IntN(100); {
	case w.burst > 0:
		w.burst--
		fault = "slow down"
	case n < 10:
		w.burst = w.random.IntN(5)
		fault = "slow down"
	case n < 14:
		fault = "cut upload"
	case n < 18:
		fault = "lost answer"
	case n < 22:
		fault = "cut answer"
	}
	if fault != "" {
		w.faults[fault]++
	}
	return fault
}

// kinds is how many kinds of faults there were so far.
func (w *wire) kinds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults)
}

// ServeHTTP implements http.Handler.
func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	fault := w.draw()
	switch fault {
	case "slow down":
		io.Copy(io.Discard, r.Body)
		rw.Header().Set("Retry-After", "0")
		rw.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(rw, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	case "cut upload":
		io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	}
	r.Header.Set("X-Test-Fault", fault)
	w.proxy.ServeHTTP(rw, r)
}

// answer spoils an answer: the server has done its work by then.
func (w *wire) answer(r *http.Response) error {
	switch r.Request.Header.Get("X-Test-Fault") {
	case "lost answer":
		return io.ErrUnexpectedEOF
	case "cut answer":
		r.Body = &cutBody{ReadCloser: r.Body, left: r.ContentLength / 2}
	}
	return nil
}

// cutBody breaks before its end.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// TestBadWire saves and restores over a line that refuses, cuts and forgets, until it has
// done each. Each run succeeds, or fails and says why; what was acknowledged is whole.
func TestBadWire(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "snapctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	server := s3test.Start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWire(t, server.Endpoint, seed)

	good := machineAt(t, filepath.Join(dir, "good"), server.URL("wire"), filepath.Join(dir, "good", "state"))
	good.env = server.Environ()
	good.must("init")
	bad := machineAt(t, filepath.Join(dir, "bad"), strings.Replace(server.URL("wire"), url.QueryEscape(server.Endpoint), url.QueryEscape(w.server.URL), 1), filepath.Join(dir, "bad", "state"))
	bad.env = server.Environ()

	files, acknowledged, failures := tree{}, map[string]tree{}, 0
	for round := 0; round < 8 || round < 40 && w.kinds() < 4; round++ {
		for i := range 100 {
			files.put(t, bad.ws, fmt.Sprintf("d%d/f%d", i%7, i+20*round), uint64(round))
		}
		o := bad.run("snapshot", bad.ws, "--json", "--verify-uploads")
		if o.code > 0 {
			failures++
			if !strings.Contains(o.err, "s3://") && !strings.Contains(o.err, "packs/") {
				t.Errorf("an error that names nothing: %s", o.err)
			}
			continue
		}
		acknowledged[o.saved(t).Snapshot] = maps.Clone(files)
	}
	good.must("check", "--read-data")
	for id, want := range acknowledged { // the caches are empty at first, and read through later
		target := filepath.Join(dir, "out")
		if o := bad.run("restore", id, target, "--delete"); o.code != 0 {
			failures++
			if !strings.Contains(o.err, "attempt") {
				t.Errorf("restore over the bad line: exit %d, %s", o.code, o.err)
			}
			good.must("restore", id, target, "--delete")
		}
		if wrong := want.compare(target); wrong != "" {
			t.Errorf("snapshot %s: %s", id, wrong)
		}
	}
	t.Logf("faults %v; %d snapshots acknowledged and restored, %d runs failed", w.faults, len(acknowledged), failures)
	if len(w.faults) != 4 || len(acknowledged) == 0 {
		t.Error("the line was not bad enough, or too bad")
	}
}

// TestStoreErrors: what is wrong with a bucket is said at once, with its name.
func TestStoreErrors(t *testing.T) {
	server, secure := s3test.Start(t), s3test.StartTLS(t)
	place := func(bucket, endpoint string) string {
		return "s3://" + bucket + "/x?endpoint=" + url.QueryEscape(endpoint)
	}
	for name, test := range map[string]struct {
		repo string
		env  []string
		says []string
		code int
		hint string // a part of it; empty: the message says what to do
	}{
		"no bucket":      {repo: place("absent-bucket", server.Endpoint), says: []string{"absent-bucket", "bucket does not exist"}, code: exitFailed},
		"no repository":  {repo: place(server.Bucket, server.Endpoint), says: []string{"no snapctl repository"}, code: exitNoRepository, hint: "snapctl init"},
		"wrong secret":   {repo: place(server.Bucket, server.Endpoint), env: []string{"AWS_SECRET_ACCESS_KEY=wrong"}, says: []string{server.Bucket, "denied", "secret key does not belong"}, code: exitFailed},
		"unknown key":    {repo: place(server.Bucket, server.Endpoint), env: []string{"AWS_ACCESS_KEY_ID=nobody"}, says: []string{server.Bucket, "denied", "does not know this access key"}, code: exitFailed},
		"no credentials": {repo: place(server.Bucket, server.Endpoint), env: []string{"AWS_ACCESS_KEY_ID="}, says: []string{"credentials"}, code: exitFailed, hint: "AWS_ACCESS_KEY_ID"},
		"unknown CA":     {repo: place(secure.Bucket, secure.Endpoint), says: []string{"certificate"}, code: exitFailed},
		"TLS to plain":   {repo: place(server.Bucket, strings.Replace(server.Endpoint, "http:", "https:", 1)), says: []string{"no secure connection"}, code: exitFailed},
		"no such host":   {repo: place(server.Bucket, "https://store.invalid"), says: []string{"store.invalid"}, code: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := machineAt(t, dir, test.repo, filepath.Join(dir, "state"))
			m.env = append(server.Environ(), test.env...)
			o := m.run("list")
			if o.code != test.code {
				t.Errorf("exit %d, want %d: %s", o.code, test.code, o.err)
			}
			for _, want := range test.says {
				if !strings.Contains(o.err, want) {
					t.Errorf("nothing says %q: %s", want, o.err)
				}
			}
			_, hint, found := strings.Cut(o.err, "snapctl: hint: ")
			if found != (test.hint != "") || !strings.Contains(hint, test.hint) {
				t.Errorf("hint %q, want %q", hint, test.hint)
			}
		})
	}
}
