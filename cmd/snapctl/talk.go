package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/engine"
)

// talker writes to standard error: warnings, the last word of an operation,
// errors, and on a terminal a line of progress that makes way for the others.
// With --json each message is a JSON object on a line.
type talker struct {
	w       io.Writer
	json    bool
	quiet   bool
	verbose bool

	mu    sync.Mutex // guards what follows, and the order of lines on w
	meter meter
}

func newTalker(w io.Writer, env environ) *talker {
	return &talker{w: w, meter: newMeter(w, env)}
}

// say writes the outcome of an operation for people. Programs find it in the
// JSON output instead.
func (t *talker) say(format string, args ...any) {
	if !t.quiet && !t.json {
		t.write("snapctl: " + printable(fmt.Sprintf(format, args...)))
	}
}

// detail is say for those who asked for more.
func (t *talker) detail(format string, args ...any) {
	if t.verbose {
		t.say(format, args...)
	}
}

// warn tells of something that went wrong without ending the operation.
func (t *talker) warn(format string, args ...any) {
	message := printable(oneLine(fmt.Sprintf(format, args...)))
	if t.json {
		t.writeJSON(struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		}{"warning", message})
		return
	}
	t.write("snapctl: warning: " + message)
}

// oneLine makes one line of joined errors, which are a line each.
func oneLine(message string) string { return strings.ReplaceAll(message, "\n", "; ") }

// fail tells why the program ends.
func (t *talker) fail(f failure) {
	if t.json {
		t.writeJSON(struct {
			Type    string `json:"type"`
			Code    int    `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		}{"error", f.code, printable(f.message), f.hint})
		return
	}
	t.write("snapctl: " + printable(f.message))
	if f.hint != "" {
		t.write("snapctl: hint: " + printable(f.hint))
	}
}

// events connects the engine to the talker.
func (t *talker) events() engine.Events {
	return engine.Events{
		Progress: func(p engine.Progress) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.meter.draw(p)
		},
		Warning: func(w engine.Warning) { t.warn("%s %s: %v", w.Op, w.Object, w.Err) },
	}
}

// begin shows at once that an operation has started.
func (t *talker) begin(op string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.quiet {
		t.meter.begin(op)
	}
}

// done takes the progress line away for good.
func (t *talker) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meter.end()
}

func (t *talker) write(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meter.erase()
	io.WriteString(t.w, line+"\n") // nobody is left to tell if this fails
}

func (t *talker) writeJSON(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // only for types that JSON does not know
	}
	t.write(string(escapeJSON(line)))
}
