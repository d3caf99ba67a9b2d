package link

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the client sees what is missing
		w.Write(body)
	}))
	defer server.Close()
	l, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	send := func(method, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, l.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != body {
			t.Errorf("%s: %d bytes came back, %v, want %d", method, len(got), err, len(body))
		}
	}
	send("PUT", "0123456789")
	before := l.Counts()
	send("PUT", strings.Repeat("x", 100_000))
	send("GET", "")
	if c := l.Counts(); c.Total() != 3 || c.Requests["PUT"] != 2 || c.Bytes != 200_020 {
		t.Errorf("counted %+v", c)
	}
	since := l.Counts().Since(before)
	if !maps.Equal(since.Requests, map[string]int{"PUT": 1, "GET": 1}) || since.Bytes != 200_000 {
		t.Errorf("counted since: %+v", since)
	}
	l.Reset(0, 0)
	if c := l.Counts(); c.Total() != 0 || c.Bytes != 0 {
		t.Errorf("counted after a reset: %+v", c)
	}
}
