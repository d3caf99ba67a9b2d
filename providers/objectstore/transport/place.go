package transport

import (
	"context"
	"sync"
	"time"
)

// restTime is how long a reader that nobody reads keeps its place in the lane.
const restTime = 100 * time.Millisecond

// place is one admission to a lane, which is given up while it is not used. Who
// holds a reader and stays away may be waiting for another place in the same
// lane: if both were kept, neither would ever come.
type place struct {
	lane *lane

	mu     sync.Mutex // guards the fields below
	inside bool
	unused time.Time   // since when; zero while it is used
	timer  *time.Timer // ends a rest by giving the place up
}

// newPlace is for who entered the lane.
func newPlace(in *lane) *place {
	p := &place{lane: in, inside: true}
	p.timer = time.AfterFunc(restTime, p.giveUp)
	p.timer.Stop()
	return p
}

// rest begins a time without use.
func (p *place) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unused = time.Now()
	p.timer.Reset(restTime)
}

// giveUp is called by the timer, maybe for a rest that ended meanwhile: then another
// may have begun, which has its own time.
func (p *place) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.unused.IsZero() && time.Since(p.unused) >= restTime {
		p.leaveLocked()
	}
}

// use ends a rest, and waits for another place if this one was given up.
func (p *place) use(ctx context.Context) error {
	if p.kept() {
		return nil
	}
	if _, err := p.lane.enter(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside = true
	return nil
}

func (p *place) kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unused = time.Time{}
	return p.inside
}

// leave gives the place up. It may be called more than once, but not beside use.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.leaveLocked()
}

func (p *place) leaveLocked() {
	if p.inside {
		p.inside = false
		p.lane.leave()
	}
}
