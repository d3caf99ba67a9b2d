package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/snapctl/snapctl/engine"
)

// meterPause is the shortest time between two drawings: five a second are
// enough for eyes.
const meterPause = 200 * time.Millisecond

// meter draws one line of progress on a terminal, over itself, without colours.
// Where there is no terminal it does nothing.
type meter struct {
	w      io.Writer
	fd     int // of the terminal; negative if there is none
	active bool
	drawn  bool // there is a line to erase
	last   time.Time
}

func newMeter(w io.Writer, env environ) meter {
	m := meter{w: w, fd: -1}
	if fd, ok := terminal(w); ok && env.get(envTerm) != "dumb" {
		m.fd = fd
	}
	return m
}

// terminal returns the descriptor of w if it is a terminal.
func terminal(w any) (fd int, ok bool) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return -1, false
	}
	return int(f.Fd()), true
}

func (m *meter) begin(op string) {
	m.active = m.fd >= 0
	m.put(op)
}

func (m *meter) draw(p engine.Progress) {
	if time.Since(m.last) >= meterPause {
		m.put(describe(p))
	}
}

func (m *meter) put(text string) {
	if !m.active {
		return
	}
	width, _, err := term.GetSize(m.fd)
	if err != nil || width < 10 {
		width = 80
	}
	io.WriteString(m.w, "\r"+cut(printable(text), width-1)+"\x1b[K")
	m.drawn, m.last = true, time.Now()
}

func (m *meter) erase() {
	if m.drawn {
		io.WriteString(m.w, "\r\x1b[K")
		m.drawn = false
	}
}

func (m *meter) end() {
	m.erase()
	m.active = false
}

// describe says how far an operation is, how fast, and how long it will take.
func describe(p engine.Progress) string {
	parts := []string{strings.TrimSpace(p.Op + " " + p.Phase)}
	if p.TotalFiles > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d files", p.Files, p.TotalFiles))
	} else if p.Files > 0 {
		parts = append(parts, fmt.Sprintf("%d files", p.Files))
	}
	if p.TotalBytes > 0 {
		parts = append(parts, size(p.Bytes)+" of "+size(p.TotalBytes))
	} else if p.Bytes > 0 {
		parts = append(parts, size(p.Bytes))
	}
	if seconds := p.Elapsed.Seconds(); seconds > 0 && p.Bytes > 0 {
		parts = append(parts, size(uint64(float64(p.Bytes)/seconds))+"/s")
	}
	if left, ok := remaining(p); ok {
		parts = append(parts, "ETA "+clock(left))
	}
	if p.Current != "" {
		parts = append(parts, quote(p.Current))
	}
	return strings.Join(parts, ", ")
}

// remaining extrapolates from what is done, if the total is known.
func remaining(p engine.Progress) (time.Duration, bool) {
	done, total := p.Bytes, p.TotalBytes
	if total == 0 {
		done, total = p.Files, p.TotalFiles
	}
	if done == 0 || total == 0 || p.Elapsed <= 0 {
		return 0, false
	}
	if done >= total {
		return 0, true
	}
	return time.Duration(float64(p.Elapsed) * (float64(total)/float64(done) - 1)), true
}

// clock is a duration as h:mm:ss or m:ss.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
