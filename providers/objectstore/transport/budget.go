package transport

import (
	"sync"
	"time"
)

// The retry budget is that of Finagle (Twitter; RetryBudget, 2016), with its
// numbers: a fifth of the requests may be made again, and on top of that ten a
// second, saved up for at most ten seconds. It pays in for requests that were
// answered rather than for those that were made, as the token bucket of the AWS
// SDKs does, so that a dead store is asked ten times a second by any number of
// goroutines. And a retry that it cannot pay waits for its turn instead of
// failing: a snapshot has time.
const (
	budgetPerAnswer = 0.2
	budgetPerSecond = 10
	budgetBurst     = 100
)

// budget is a token bucket. A retry takes a token; the balance may be negative,
// and then the retry waits until time alone has paid for it.
type budget struct {
	mu      sync.Mutex // guards the fields below
	balance float64
	at      time.Time // when balance was computed
}

func newBudget() *budget { return &budget{balance: budgetBurst, at: time.Now()} }

// deposit pays in for an answer.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	b.add(budgetPerAnswer)
}

// withdraw pays for a retry and says how long to wait before it. It pays
// nothing and says false if that were longer than limit.
func (b *budget) withdraw(limit time.Duration) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	if debt := 1 - b.balance; debt > 0 {
		wait = time.Duration(debt / budgetPerSecond * float64(time.Second))
	}
	if wait > limit {
		return 0, false
	}
	b.balance--
	return wait, true
}

func (b *budget) advance() {
	now := time.Now()
	b.add(now.Sub(b.at).Seconds() * budgetPerSecond)
	b.at = now
}

func (b *budget) add(tokens float64) { b.balance = min(budgetBurst, b.balance+tokens) }
