package objectstoretest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func testIfAbsent(t *testing.T, s objectstore.Store) {
	opts := objectstore.PutOptions{IfAbsent: true}
	put := func(content string) error {
		_, err := s.Put(t.Context(), "new/folder/key", strings.NewReader(content), opts)
		return err
	}
	if err := put("first"); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"second", "first", ""} {
		wantError(t, put(content), "put", "new/folder/key", objectstore.ErrExist)
		wantContent(t, s, "new/folder/key", "first")
	}
	mustPut(t, s, "new/folder/key", "overwritten")
	wantError(t, put("third"), "put", "new/folder/key", objectstore.ErrExist)
	if err := s.Delete(t.Context(), "new/folder/key"); err != nil {
		t.Fatal(err)
	}
	if err := put("fourth"); err != nil {
		t.Errorf("put after delete: %v", err)
	}
	wantContent(t, s, "new/folder/key", "fourth")
}

// racers is how many goroutines fight for one key.
const racers = 32

// race runs put in every racer at once and returns the number of the one that
// succeeded. All others must fail with the sentinel.
func race(t *testing.T, key string, sentinel error, put func(racer int) error) (winner int) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, racers)
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-start
			errs[i] = put(i)
		})
	}
	close(start)
	wg.Wait()
	winner = -1
	for i, err := range errs {
		if err == nil && winner >= 0 {
			t.Errorf("%s: racers %d and %d both won", key, winner, i)
		}
		if err == nil {
			winner = i
		} else {
			wantError(t, err, "put", key, sentinel)
		}
	}
	if winner < 0 {
		t.Fatalf("%s: nobody won", key)
	}
	return winner
}

func testIfAbsentRace(t *testing.T, s objectstore.Store) {
	for round := range 4 {
		key := fmt.Sprintf("race/%d/key", round)
		var mu sync.Mutex
		seen := map[string]bool{} // what readers saw during the race
		winner := race(t, key, objectstore.ErrExist, func(racer int) error {
			body := strings.NewReader(racerBody(racer))
			_, err := s.Put(t.Context(), key, body, objectstore.PutOptions{IfAbsent: true})
			content, readErr := read(t.Context(), s, key, objectstore.Range{})
			if readErr != nil {
				return errors.Join(errors.New("loser cannot read the winner"), readErr)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[content] = true
			return err
		})
		if len(seen) != 1 || !seen[racerBody(winner)] {
			t.Errorf("readers saw %d bodies, want only that of the winner", len(seen))
		}
		wantContent(t, s, key, racerBody(winner))
	}
}

func racerBody(racer int) string { return strings.Repeat(fmt.Sprintf("racer %d\n", racer), 1000) }

func testIfMatch(t *testing.T, s objectstore.Store) {
	put := func(content, etag string) (objectstore.Info, error) {
		return s.Put(t.Context(), "key", strings.NewReader(content), objectstore.PutOptions{IfMatch: etag})
	}
	_, err := put("nothing there", "etag")
	wantError(t, err, "put", "key", objectstore.ErrPrecondition)
	wantAbsent(t, s, "key")

	first := mustPut(t, s, "key", "first")
	second, err := put("second", first.ETag)
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "key", "second")
	_, err = put("third", first.ETag)
	wantError(t, err, "put", "key", objectstore.ErrPrecondition)
	wantContent(t, s, "key", "second")

	mustPut(t, s, "key", "unconditional")
	_, err = put("fourth", second.ETag)
	wantError(t, err, "put", "key", objectstore.ErrPrecondition)
	wantContent(t, s, "key", "unconditional")

	stat := mustStat(t, s, "key")
	if _, err := put("fifth", stat.ETag); err != nil {
		t.Errorf("put with the etag of stat: %v", err)
	}
	stat = mustStat(t, s, "key")
	if err := s.Delete(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	_, err = put("sixth", stat.ETag)
	wantError(t, err, "put", "key", objectstore.ErrPrecondition)
	wantAbsent(t, s, "key")
}

func testIfMatchRace(t *testing.T, s objectstore.Store) {
	etag := mustPut(t, s, "key", "start").ETag
	for range 4 {
		winner := race(t, "key", objectstore.ErrPrecondition, func(racer int) error {
			body := strings.NewReader(racerBody(racer))
			_, err := s.Put(t.Context(), "key", body, objectstore.PutOptions{IfMatch: etag})
			return err
		})
		wantContent(t, s, "key", racerBody(winner))
		// Another content, for stores whose etag is a hash of it.
		etag = mustPut(t, s, "key", "next "+etag).ETag
	}
}
