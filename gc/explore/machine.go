package explore

import (
	"context"
	"fmt"
	"testing/synctest"
)

// machine is an actor that runs for real: between two steps all its goroutines
// wait for the store.
type machine struct {
	actor  *Actor
	stage  *stage
	gate   *gate
	cancel context.CancelFunc
	steps  int
	ended  chan struct{}

	// Valid once ended is closed.
	outcome Outcome
	err     error
}

// start runs an actor up to its first step. It must be called in a bubble of
// package synctest, as all methods of a machine must be.
func (s *stage) start(actor *Actor) *machine {
	ctx, cancel := context.WithCancel(context.Background())
	m := &machine{actor: actor, stage: s, gate: &gate{stage: s}, cancel: cancel, ended: make(chan struct{})}
	store := &port{ask: m.gate.ask, page: s.Page, mu: &m.gate.mu, objects: s.objects}
	s.random.begin(actor.Name, 0)
	go func() {
		defer close(m.ended)
		m.outcome, m.err = actor.Run(ctx, store, m.gate.shut)
	}()
	synctest.Wait()
	return m
}

// done reports whether the program has ended.
func (m *machine) done() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// waiting returns the requests that wait for an answer; none if the program has
// ended.
func (m *machine) waiting() ([]request, error) {
	calls := m.gate.calls()
	switch done := m.done(); {
	case done && len(calls) > 0:
		return nil, fmt.Errorf("%s: ended, and left %d calls behind", m.actor.Name, len(calls))
	case !done && len(calls) == 0:
		return nil, fmt.Errorf("%s: waits for something that is no call of the store", m.actor.Name)
	}
	requests := make([]request, len(calls))
	for i, c := range calls {
		requests[i] = c.request
	}
	return requests, nil
}

// step answers one of the waiting requests and lets the program run up to the next.
func (m *machine) step(i int, answer reply) {
	m.steps++
	m.stage.random.begin(m.actor.Name, m.steps)
	m.gate.reply(m.gate.calls()[i], answer)
	synctest.Wait()
}

// stop ends the program wherever it is.
func (m *machine) stop() {
	m.cancel()
	m.gate.abandon()
	<-m.ended
}
