package explore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// errStopped is what an actor hears that is given up.
var errStopped = errors.New("the explorer has no more use for this run")

// gate keeps the requests of one actor until they are answered from outside. Until
// it is shut it answers by itself, from the objects that the scenario begins with.
type gate struct {
	stage *stage

	mu      sync.Mutex // guards the following, and the stage's objects while the actor runs
	closed  bool
	dead    bool
	waiting []*call
}

// call is a request that waits for its reply.
type call struct {
	request
	answer chan reply
}

// ask makes a request and waits.
func (g *gate) ask(ctx context.Context, r request) (reply, error) {
	c, answer := g.enter(r)
	if c == nil {
		return answer, failures[answer.failure]
	}
	select {
	case answer := <-c.answer:
		return answer, failures[answer.failure]
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.remove(c)
		return reply{}, ctx.Err()
	}
}

// enter returns a call that waits, or the reply if nobody has to wait for it.
func (g *gate) enter(r request) (*call, reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.stage.objects
	switch fixed := g.stage.Fixed != nil && g.stage.Fixed(o.keys[r.key]); {
	case g.dead:
		return nil, reply{failure: stopped}
	case (fixed || !g.closed) && r.writes():
		panic("explore: write of " + o.keys[r.key] + " before the run begins, or though it is said to be fixed")
	case fixed || !g.closed:
		r.page = 0
		_, answer := o.apply(g.stage.first, r)
		return nil, answer
	}
	c := &call{r, make(chan reply, 1)}
	g.waiting = append(g.waiting, c)
	return c, reply{}
}

func (g *gate) remove(c *call) {
	g.waiting = slices.DeleteFunc(g.waiting, func(other *call) bool { return other == c })
}

// shut makes all calls wait from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// calls returns what waits, in an order that does not depend on who came first.
func (g *gate) calls() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.waiting, func(a, b *call) int { return g.stage.objects.compare(a.request, b.request) })
	return slices.Clone(g.waiting)
}

// reply answers one call.
func (g *gate) reply(c *call, answer reply) {
	g.mu.Lock()
	g.remove(c)
	g.mu.Unlock()
	c.answer <- answer
}

// abandon makes every call fail, now and later.
func (g *gate) abandon() {
	g.mu.Lock()
	waiting := g.waiting
	g.dead, g.waiting = true, nil
	g.mu.Unlock()
	for _, c := range waiting {
		c.answer <- reply{failure: stopped}
	}
}

func (o *objects) compare(a, b request) int {
	return cmp.Or(
		cmp.Compare(a.op, b.op),
		cmp.Compare(o.keys[a.key], o.keys[b.key]),
		cmp.Compare(a.after, b.after),
		cmp.Compare(a.part.Offset, b.part.Offset),
		cmp.Compare(a.part.Length, b.part.Length),
		cmp.Compare(o.etags[a.content], o.etags[b.content]),
	)
}
