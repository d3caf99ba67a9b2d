package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/file"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var all = []probe.Name{
	probe.ReadAfterWrite, probe.ListAfterWrite, probe.ListAfterKey, probe.PutIfAbsent,
	probe.PutIfMatch, probe.Overwrite, probe.DeleteThenList, probe.Ranges,
}

// run probes a store in which nothing may remain.
func run(t *testing.T, s objectstore.Store) probe.Report {
	t.Helper()
	report, err := probe.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	names := []probe.Name{}
	for _, g := range report.Guarantees {
		names = append(names, g.Name)
		if g.Detail == "" || g.Consequence == "" || strings.Contains(g.Detail+g.Consequence, "\n") {
			t.Errorf("explained badly: %+v", g)
		}
	}
	if !slices.Equal(names, all) {
		t.Errorf("probed %q", names)
	}
	return report
}

// wantLacks checks which guarantees did not hold.
func wantLacks(t *testing.T, r probe.Report, want ...probe.Name) {
	t.Helper()
	for _, g := range r.Guarantees {
		if g.Held == slices.Contains(want, g.Name) || g.Held != r.Held(g.Name) {
			t.Errorf("%s held: %v (%s)", g.Name, g.Held, g.Detail)
		}
	}
	online := !slices.ContainsFunc(want, func(n probe.Name) bool { return slices.Contains(all[:4], n) })
	if r.Online() != online {
		t.Errorf("online: %v", r.Online())
	}
}

func wantEmpty(t *testing.T, s objectstore.Store) {
	t.Helper()
	for info, err := range s.List(context.Background(), "", "") {
		t.Errorf("left: %s, %v", info.Key, err)
	}
}

func TestGoodStores(t *testing.T) {
	directory, err := file.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	for name, s := range map[string]objectstore.Store{"mem": mem.New(), "file": directory} {
		t.Run(name, func(t *testing.T) {
			report := run(t, s)
			wantLacks(t, report)
			wantEmpty(t, s)
			if len(report.LeftBehind) != 0 {
				t.Errorf("left behind: %q", report.LeftBehind)
			}
		})
	}
}

// TestFlawsAreFound: each flaw is found in what it breaks, and in nothing else.
func TestFlawsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		store func(good *mem.Store) objectstore.Store
		lacks []probe.Name
		seen  string // in the detail of the first
	}{
		"conditions ignored": {
			func(s *mem.Store) objectstore.Store { return ignoresConditions{s} },
			[]probe.Name{probe.PutIfAbsent, probe.PutIfMatch}, "a put was acknowledged if absent to a key that is taken",
		},
		"match creates": {
			func(s *mem.Store) objectstore.Store { return createsOnMatch{s} },
			[]probe.Name{probe.PutIfMatch}, "a put was acknowledged if match to an absent key",
		},
		"checks, then acts": {
			func(s *mem.Store) objectstore.Store { return checksThenActs{s} },
			[]probe.Name{probe.PutIfAbsent, probe.PutIfMatch}, "32 of 32 racing puts were acknowledged",
		},
		"conditions refused": {
			func(s *mem.Store) objectstore.Store { return refuses{s} },
			[]probe.Name{probe.PutIfAbsent, probe.PutIfMatch}, "501 Not Implemented",
		},
		"lists late": {
			func(s *mem.Store) objectstore.Store { return &listsLate{Store: s} },
			[]probe.Name{probe.ListAfterWrite, probe.ListAfterKey, probe.Overwrite, probe.DeleteThenList}, "not listed right after its put",
		},
		"remembers absence": {
			func(s *mem.Store) objectstore.Store { return &remembersAbsence{Store: s, absent: map[string]bool{}} },
			[]probe.Name{probe.ReadAfterWrite, probe.DeleteThenList}, "object does not exist",
		},
		"reads stale": {
			func(s *mem.Store) objectstore.Store { return &readsStale{Store: s, past: mem.New()} },
			[]probe.Name{probe.ReadAfterWrite, probe.PutIfMatch, probe.Overwrite}, `"version-0" (1000 bytes) was read back, not "version-1" (990 bytes)`,
		},
		"lists folders": {
			func(s *mem.Store) objectstore.Store { return listsFolders{s} },
			[]probe.Name{probe.ListAfterKey}, "a listing after",
		},
		"ignores after": {
			func(s *mem.Store) objectstore.Store { return ignoresAfter{s} },
			[]probe.Name{probe.ListAfterKey}, "a listing after",
		},
		"lists ghosts": {
			func(s *mem.Store) objectstore.Store { return &listsGhosts{Store: s} },
			[]probe.Name{probe.DeleteThenList}, "listed after its delete",
		},
		"serves whole": {
			func(s *mem.Store) objectstore.Store { return servesWhole{s} },
			[]probe.Name{probe.Ranges}, "10 bytes from 0 are",
		},
		"serves nothing": {
			func(s *mem.Store) objectstore.Store { return servesNothing{s} },
			[]probe.Name{probe.Ranges}, "1 bytes from 1000 are",
		},
		"damages": {
			func(s *mem.Store) objectstore.Store {
				return fault.New(s, fault.On(fault.Put, "", fault.Truncate(100<<10)))
			},
			[]probe.Name{probe.ReadAfterWrite}, "(102400 bytes) was read back",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := mem.New()
				report := run(t, test.store(good))
				wantLacks(t, report, test.lacks...)
				for _, g := range report.Guarantees {
					if g.Name == test.lacks[0] && !strings.Contains(g.Detail, test.seen) {
						t.Errorf("%s: %s, want %q in it", g.Name, g.Detail, test.seen)
					}
				}
				wantEmpty(t, good)
			})
		})
	}
}

// losesRaces loses some answers of puts in races: to the wire, or to a retry
// that finds what the first attempt stored.
type losesRaces struct {
	objectstore.Store
	loses func(key string) bool
	err   error
}

func (s losesRaces) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, opts)
	if err == nil && opts != (objectstore.PutOptions{}) && strings.Contains(key, "race-") && s.loses(key) {
		err = &objectstore.Error{Op: "put", Key: key, Err: s.err}
	}
	return info, err
}

// TestLostAnswers are no flaw of a store.
func TestLostAnswers(t *testing.T) {
	some := func(key string) bool { return !strings.HasSuffix(key, "race-3") }
	every := func(string) bool { return true }
	for _, lost := range []error{objectstore.ErrUnavailable, objectstore.ErrThrottled} {
		wantLacks(t, run(t, losesRaces{mem.New(), some, lost}))
		_, err := probe.Run(t.Context(), losesRaces{mem.New(), every, lost})
		if !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("every answer lost: %v", err)
		}
	}
	absent := func(key string) bool { return strings.Contains(key, "put-if-absent/") && some(key) }
	wantLacks(t, run(t, losesRaces{mem.New(), absent, objectstore.ErrExist}))
}

// TestCannotBeProbed: a store that does not answer has no flaw that was found.
func TestCannotBeProbed(t *testing.T) {
	for _, err := range []error{objectstore.ErrUnavailable, objectstore.ErrThrottled, objectstore.ErrDenied, objectstore.ErrNoSpace} {
		good := mem.New()
		broken := fault.New(good, fault.On(fault.Put, "probe/", fault.Fail(err)))
		report, got := probe.Run(t.Context(), broken)
		if !errors.Is(got, err) || !strings.HasPrefix(got.Error(), "probe ") || report.Online() {
			t.Errorf("%v: %v, %+v", err, got, report)
		}
		if len(report.Guarantees) != 0 {
			t.Errorf("%v: found %+v", err, report.Guarantees)
		}
	}
}

// TestJSON: the report is data, under names that stay.
func TestJSON(t *testing.T) {
	report := probe.Report{
		Guarantees: []probe.Guarantee{{Name: probe.PutIfAbsent, Held: true, Detail: "seen", Consequence: "what then"}},
		LeftBehind: []string{"probe/x/y"},
	}
	got, err := json.Marshal(report)
	const want = `{"guarantees":[{"name":"put-if-absent","held":true,"detail":"seen","consequence":"what then"}],"left_behind":["probe/x/y"]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if (probe.Report{}).Online() {
		t.Error("what was not probed holds")
	}
}
