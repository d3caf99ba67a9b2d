package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

const (
	racers = 32 // writers that put to one key at once

	// One round finds most stores that check and then act; more find those whose
	// moment between the two is short. Some servers let writers of one key wait
	// for seconds: for them two rounds have to do, one of each size of body.
	rounds       = 6
	enoughRounds = 2
	roundTime    = 5 * time.Second
)

// race is a key for which writers fight.
type race struct {
	folder
	key    string
	size   int    // of the bodies, in bytes
	before string // what is there before; empty if nothing is
	opts   objectstore.PutOptions
	lost   error // what all but one are answered
}

// attempt is what one writer was answered, and what it read then.
type attempt struct {
	err     error
	seen    string
	readErr error
}

// races lets writers race for one key after the other, with small bodies and
// with such as do not come in one go, being larger than what a connection sends
// before it is first answered: some stores check the condition before they have
// the body, some after it. Prepare completes a race.
func (f folder) races(ctx context.Context, prepare func(*race) error) (string, error) {
	start, clear := time.Now(), 0
	for round := range rounds {
		if clear >= enoughRounds && time.Since(start) > roundTime {
			break
		}
		r := race{folder: f, key: fmt.Sprintf("race-%d", round), size: []int{100, 16 << 10}[round%2]}
		if err := prepare(&r); err != nil {
			return "", err
		}
		won, err := r.run(ctx)
		if err != nil {
			return "", err
		}
		if won {
			clear++
		}
	}
	if clear == 0 {
		return "", fmt.Errorf("the answer to the winner was lost in every race: %w", objectstore.ErrUnavailable)
	}
	return fmt.Sprintf("%d races of %d writers had one winner each, and no condition was ignored", clear, racers), nil
}

// run says whether exactly one writer was acknowledged. If none was, the answer
// may have been lost on the way, and made up by a retry: that tells nothing.
// Everything else is an error.
func (r *race) run(ctx context.Context) (won bool, err error) {
	attempts := r.start(ctx)
	winner, unclear, err := r.judge(attempts)
	if err != nil {
		return false, err
	}
	final, err := r.get(ctx, r.key, objectstore.Range{})
	if errors.Is(err, objectstore.ErrNotExist) {
		final, err = "", nil
	}
	if err != nil {
		return false, fmt.Errorf("read after a race: %w", err)
	}
	if winner < 0 {
		if final == r.before && !unclear {
			return false, fmt.Errorf("of %d racing puts none was acknowledged, and none was done", racers)
		}
		return false, nil
	}
	for _, a := range attempts {
		if a.readErr == nil && a.seen != r.body(winner) && a.seen != r.before {
			return false, fmt.Errorf("a reader saw %s in a race that %s won", about(a.seen), about(r.body(winner)))
		}
	}
	if final != r.body(winner) {
		return false, fmt.Errorf("%s is there after a race that %s won", about(final), about(r.body(winner)))
	}
	return true, nil
}

// start runs all writers at once and returns when all have ended.
func (r *race) start(ctx context.Context) []attempt {
	attempts := make([]attempt, racers)
	gun := make(chan struct{})
	var wg sync.WaitGroup
	for i := range attempts {
		wg.Go(func() {
			<-gun
			a := &attempts[i]
			_, a.err = r.put(ctx, r.key, r.body(i), r.opts)
			a.seen, a.readErr = r.get(ctx, r.key, objectstore.Range{})
		})
	}
	close(gun)
	wg.Wait()
	return attempts
}

// judge finds the one writer that was acknowledged, -1 if there is none, and
// says whether the answer to another was unclear.
func (r *race) judge(attempts []attempt) (winner int, unclear bool, err error) {
	winner = -1
	winners := 0
	for i, a := range attempts {
		switch {
		case a.err == nil:
			winner = i
			winners++
		case isUnclear(a.err):
			unclear = true
		case !errors.Is(a.err, r.lost):
			return -1, false, fmt.Errorf("a put in a race: %w", a.err)
		}
	}
	if winners > 1 {
		return -1, false, fmt.Errorf("%d of %d racing puts were acknowledged", winners, racers)
	}
	return winner, unclear, nil
}

func (r *race) body(racer int) string { return body(fmt.Sprintf("racer-%d", racer), r.size) }
