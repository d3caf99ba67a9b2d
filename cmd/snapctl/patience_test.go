package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestPatience(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(1_000_000, 0)
	p := newPatience(newTalker(&out, environ{func(string) (string, bool) { return "", false }}))
	p.now = func() time.Time { return clock }
	for _, step := range []struct {
		attempt int
		later   time.Duration
		told    bool
	}{
		{1, 0, false}, {2, time.Second, false}, {3, time.Second, true}, {4, time.Second, false}, {3, time.Second, false},
		{2, time.Minute, false}, {5, 0, true}, {6, patiencePause - 1, false}, {7, 1, true},
		{8, -time.Hour, true}, // somebody set the clock
	} {
		clock = clock.Add(step.later)
		out.Reset()
		p.tell(transport.Retry{Op: "get", Key: "config", Attempt: step.attempt, Err: errors.New("connection refused")})
		if told := strings.Contains(out.String(), "snapctl: waiting for the store") && strings.Contains(out.String(), "connection refused"); told != step.told {
			t.Errorf("attempt %d: told %q, want something: %v", step.attempt, out.String(), step.told)
		}
	}
}
