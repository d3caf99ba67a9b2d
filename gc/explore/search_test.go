package explore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests of this file explore small programs whose schedules can be counted by
// hand.

type program func(ctx context.Context, store objectstore.Store) (string, error)

func actor(name string, run program) *Actor {
	return &Actor{Name: name, Run: func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error) {
		begin()
		summary, err := run(ctx, store)
		return Outcome{Summary: summary}, err
	}}
}

func programs(actors ...*Actor) *Scenario {
	return &Scenario{Actors: actors, Start: mem.New(), Kinds: AllFaults, Keys: func(objectstore.Store) commit.Repo { return commit.Repo{} }}
}

func putting(keys ...string) program {
	return func(ctx context.Context, store objectstore.Store) (string, error) {
		for _, key := range keys {
			if err := put(ctx, store, key, "content", false); err != nil {
				return "", err
			}
		}
		return "put", nil
	}
}

func put(ctx context.Context, store objectstore.Store, key, content string, ifAbsent bool) error {
	_, err := store.Put(ctx, key, strings.NewReader(content), objectstore.PutOptions{IfAbsent: ifAbsent})
	return err
}

func listed(ctx context.Context, store objectstore.Store) (string, error) {
	var keys []string
	for info, err := range store.List(ctx, "", "") {
		if err != nil {
			return "", err
		}
		keys = append(keys, info.Key)
	}
	return strings.Join(keys, " "), nil
}

func TestCounts(t *testing.T) {
	r := Explore(t, programs(actor("a", putting("a1", "a2")), actor("b", putting("b1", "b2"))), 0, 0)
	if r.States != 9 || r.Transitions != 12 || r.Schedules != 6 || r.Ends != 1 || r.Depth != 4 || !r.Exhausted {
		t.Errorf("%+v", r)
	}
	if r.Histories != 6 || r.Runs != 2 {
		t.Errorf("%d histories by %d runs", r.Histories, r.Runs)
	}
}

func TestInterruptionsAreBounded(t *testing.T) {
	// Without any: one actor after the other, twice. With one: a1 b1 b2 a2, and so on.
	s := programs(actor("a", putting("a1", "a2")), actor("b", putting("b1", "b2")))
	perform(t, s, func(t *testing.T, s *stage) {
		for bound, want := range map[int]float64{1: 4, 2: 6, 3: 6} {
			if r, err := s.search(bound, 0); err != nil || r.Schedules < want-0.5 {
				t.Errorf("at most %d interruptions: %v schedules, want %v (%v)", bound, r.Schedules, want, err)
			}
		}
	})
}

func TestLimitIsKept(t *testing.T) {
	r := Explore(t, programs(actor("a", putting("a1", "a2")), actor("b", putting("b1", "b2"))), 0, 5)
	if r.States != 5 || r.Exhausted {
		t.Errorf("%d states, exhausted: %v", r.States, r.Exhausted)
	}
}

func TestOneWinsPutIfAbsent(t *testing.T) {
	racing := func(ctx context.Context, store objectstore.Store) (string, error) {
		err := put(ctx, store, "key", "content", true)
		if errors.Is(err, objectstore.ErrExist) {
			return "lost", nil
		}
		return "won", err
	}
	r := Explore(t, programs(actor("a", racing), actor("b", racing)), 0, 0)
	if want := []string{"a: lost", "a: won", "b: lost", "b: won"}; !slices.Equal(outcomes(r), want) || r.Ends != 2 {
		t.Errorf("%v", r.Outcomes)
	}
}

func TestFaults(t *testing.T) {
	for kind, want := range map[how][]string{
		lost:     {"a: ", "a: unavailable, then key"},
		delayed:  {"a: ", "a: key", "a: unavailable, then ", "a: unavailable, then key"},
		retried:  {"a: exists, then key", "a: key"},
		repeated: {"a: ", "a: key"},
	} {
		s := programs(actor("a", func(ctx context.Context, store objectstore.Store) (string, error) {
			err := put(ctx, store, "key", "content", true)
			switch {
			case errors.Is(err, objectstore.ErrUnavailable):
				keys, err := listed(ctx, store)
				return "unavailable, then " + keys, err
			case errors.Is(err, objectstore.ErrExist):
				keys, err := listed(ctx, store)
				return "exists, then " + keys, err
			case err != nil:
				return "", err
			}
			if kind == lost || kind == delayed || kind == repeated {
				if err := store.Delete(ctx, "key"); err != nil && !errors.Is(err, objectstore.ErrUnavailable) {
					return "", err
				}
			}
			return listed(ctx, store)
		}))
		s.Faults, s.Kinds, s.Reads = 1, []how{kind}, false
		if r := Explore(t, s, 0, 0); !slices.Equal(outcomes(r), want) || !r.Exhausted {
			t.Errorf("%s: %q, want %q", hows[kind], outcomes(r), want)
		}
	}
}

func TestReadsFail(t *testing.T) {
	s := programs(actor("a", func(ctx context.Context, store objectstore.Store) (string, error) {
		_, err := store.Stat(ctx, "key")
		return fmt.Sprint(errors.Is(err, objectstore.ErrUnavailable)), nil
	}))
	s.Faults, s.Reads = 1, true
	if r := Explore(t, s, 0, 0); !slices.Equal(outcomes(r), []string{"a: false", "a: true"}) {
		t.Errorf("%v", r.Outcomes)
	}
}

// A listing by pages misses a key that is moved from behind its place to before it.
func TestPages(t *testing.T) {
	mover := func(ctx context.Context, store objectstore.Store) (string, error) {
		if err := put(ctx, store, "a", "content", false); err != nil {
			return "", err
		}
		return "moved", store.Delete(ctx, "z")
	}
	for page, missed := range map[int]bool{0: false, 1: true} {
		s := programs(actor("mover", mover), actor("lister", listed))
		for _, key := range []string{"m", "z"} {
			if _, err := s.Start.Put(t.Context(), key, bytes.NewReader(nil), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.Page = page
		if r := Explore(t, s, 0, 0); slices.Contains(outcomes(r), "lister: m") != missed {
			t.Errorf("pages of %d: %v", page, r.Outcomes)
		}
	}
}

// Requests that an actor makes at the same time are answered in any order.
func TestRequestsAtTheSameTime(t *testing.T) {
	both := func(ctx context.Context, store objectstore.Store) (string, error) {
		order := make(chan string, 2)
		for _, key := range []string{"x", "y"} {
			go func() {
				_, err := store.Stat(ctx, key)
				order <- key + fmt.Sprint(err == nil)
			}()
		}
		return <-order + " " + <-order, nil
	}
	for exact, want := range map[bool]int{true: 6, false: 3} {
		s := programs(actor("a", both), actor("b", putting("x", "y")))
		s.Exact = exact
		r := Explore(t, s, 0, 0)
		if len(outcomes(r)) < want+1 { // and what b says
			t.Errorf("exact %v: %v", exact, r.Outcomes)
		}
	}
}

func TestRandomnessFollowsTheActor(t *testing.T) {
	drawing := func(ctx context.Context, store objectstore.Store) (string, error) {
		var drawn []string
		for range 2 {
			b := make([]byte, 4)
			rand.Read(b)
			drawn = append(drawn, hex.EncodeToString(b))
			if err := put(ctx, store, "key"+drawn[0], "content", false); err != nil {
				return "", err
			}
		}
		return strings.Join(drawn, " "), nil
	}
	r := Explore(t, programs(actor("a", drawing), actor("b", drawing)), 0, 0)
	if len(r.Outcomes) != 2 || r.States != 9 {
		t.Errorf("%d states, %v", r.States, r.Outcomes)
	}
	first, second, _ := strings.Cut(strings.TrimPrefix(outcomes(r)[0], "a: "), " ")
	if first == second || strings.Contains(outcomes(r)[1], first) {
		t.Errorf("the same was drawn twice: %v", r.Outcomes)
	}
}

func TestTimeStandsStill(t *testing.T) {
	r := Explore(t, programs(actor("a", func(context.Context, objectstore.Store) (string, error) {
		return time.Now().UTC().Format(time.RFC3339), nil
	})), 0, 0)
	if !slices.Equal(outcomes(r), []string{"a: 2100-01-01T00:00:00Z"}) {
		t.Errorf("%v", r.Outcomes)
	}
}

func explored(t *testing.T, s *Scenario) (err error) {
	t.Helper()
	perform(t, s, func(_ *testing.T, s *stage) { _, err = s.explore(0, 0) })
	return err
}

func TestWhoIsNoFunctionOfTheAnswersIsNoticed(t *testing.T) {
	runs := 0
	fickle := func(ctx context.Context, store objectstore.Store) (string, error) {
		runs++
		return putting("a", fmt.Sprint("b", runs), "c")(ctx, store)
	}
	s := programs(actor("fickle", fickle))
	s.Faults = 1
	if err := explored(t, s); err == nil || !strings.Contains(err.Error(), "no function") {
		t.Errorf("error %v", err)
	}
}

func TestWhoWaitsForSomethingElseIsNoticed(t *testing.T) {
	sleeper := func(ctx context.Context, _ objectstore.Store) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if err := explored(t, programs(actor("sleeper", sleeper))); err == nil || !strings.Contains(err.Error(), "no call of the store") {
		t.Errorf("error %v", err)
	}
}

// What is told as a violation is a schedule with few interruptions.
func TestViolationIsTold(t *testing.T) {
	s := programs(actor("a", putting("a1", "a2", "a3")), actor("b", func(ctx context.Context, store objectstore.Store) (string, error) {
		_, err := store.Stat(ctx, "a2")
		if err == nil {
			_, err = store.Stat(ctx, "a3")
		}
		if errors.Is(err, objectstore.ErrNotExist) {
			return "", errors.New("met a in the middle")
		}
		return "", err
	}))
	s.May = func(error) bool { return false }
	r := Explore(t, s, 0, 0)
	if r.Violation == nil || !errors.Is(r.Violation.Err, ErrUnexpected) || r.Exhausted {
		t.Fatalf("%+v", r)
	}
	if lines := strings.Count(r.Violation.Schedule, "\n"); lines != 4 || r.Interruptions != 1 {
		t.Errorf("with %d interruptions:\n%s", r.Interruptions, r.Violation.Schedule)
	}
}
