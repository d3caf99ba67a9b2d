package main

import (
	"sync"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// patience tells people what a command waits for when a store does not answer. What
// was tried twice only, as happens every day, is not worth a word.
type patience struct {
	talk *talker
	now  func() time.Time

	mu   sync.Mutex // guards last
	last time.Time  // when it told something
}

const (
	patienceAttempts = 3                // fail before anything is told
	patiencePause    = 20 * time.Second // between two things that are told
)

func newPatience(talk *talker) *patience { return &patience{talk: talk, now: time.Now} }

// tell is to be the Waiting of a transport.
func (p *patience) tell(r transport.Retry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); r.Attempt >= patienceAttempts && now.Sub(p.last).Abs() >= patiencePause {
		p.last = now
		p.talk.say("waiting for the store, after attempt %d: %v", r.Attempt, r.Err)
	}
}
