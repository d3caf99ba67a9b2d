package transport

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// lane admits a number of requests at a time, first come first served. The
// number follows the store as TCP's congestion window follows the network
// (AIMD; Chiu and Jain, 1989): it is halved when a request is throttled, and
// grows by one for every round of that many answers.
type lane struct {
	most float64

	mu       sync.Mutex // guards the fields below
	limit    float64    // from 1 to most
	inside   int
	waiting  list.List // of chan struct{}, closed when its owner is let in
	cutbacks int       // how often limit was halved
}

func newLane(most int) *lane { return &lane{most: float64(most), limit: float64(most)} }

// enter waits for admission. The ticket goes to observe.
func (l *lane) enter(ctx context.Context) (ticket int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	if l.inside < int(l.limit) {
		defer l.mu.Unlock()
		l.inside++
		return l.cutbacks, nil
	}
	turn := make(chan struct{})
	place := l.waiting.PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return l.ticket(), nil
	case <-ctx.Done():
		l.withdraw(place, turn)
		return 0, ctx.Err()
	}
}

func (l *lane) ticket() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cutbacks
}

// withdraw leaves the queue, or the lane if the turn came at the same moment.
func (l *lane) withdraw(place *list.Element, turn <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn:
		l.inside--
		l.admit()
	default:
		l.waiting.Remove(place)
	}
}

func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	l.admit()
}

// observe draws the conclusion from the outcome of a request that entered with
// this ticket. The outcome of one that was under way when the limit was halved
// says nothing about the new limit: a whole wave may come back throttled, but it
// is one sign.
func (l *lane) observe(ticket int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ticket != l.cutbacks {
		return
	}
	switch {
	case errors.Is(err, objectstore.ErrThrottled):
		l.limit = max(1, l.limit/2)
		l.cutbacks++
	case answered(err):
		l.limit = min(l.most, l.limit+1/l.limit) // of use when somebody leaves
	}
}

// admit lets in whom the limit allows. The caller holds mu.
func (l *lane) admit() {
	for l.inside < int(l.limit) && l.waiting.Len() > 0 {
		l.inside++
		close(l.waiting.Remove(l.waiting.Front()).(chan struct{}))
	}
}
