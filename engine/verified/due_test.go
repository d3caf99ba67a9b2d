package verified

import (
	"slices"
	"testing"
	"time"

	"github.com/snapctl/snapctl/packfile"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func TestNeverVerifiedPacksComeFirst(t *testing.T) {
	var r Record
	r.Note(packfile.Name{1}, now.Add(-day))
	r.Note(packfile.Name{2}, now.Add(-3*day))
	r.Note(packfile.Name{3}, now.Add(40*365*day)) // by a clock that was wrong
	r.Note(packfile.Name{4}, now.Add(26*time.Hour))
	r.Note(packfile.Name{9}, now.Add(-9*day)) // gone since
	packs := map[packfile.Name]int64{{1}: 1, {2}: 1, {3}: 1, {4}: 1, {5}: 1}
	want := []packfile.Name{{3}, {5}, {2}, {1}, {4}}
	if got := r.Due(packs, now); !slices.Equal(got, want) {
		t.Errorf("due %v, want %v", got, want)
	}
}

func TestCoverage(t *testing.T) {
	var r Record
	for n, age := range []time.Duration{0, day, day + time.Second, 8 * day, 100 * day, 1000 * day, -time.Hour} {
		r.Note(packfile.Name{byte(n + 1)}, now.Add(-age))
	}
	packs := map[packfile.Name]int64{{100}: 1000}
	for n := range 7 {
		packs[packfile.Name{byte(n + 1)}] = int64(1) << n
	}
	got := r.Coverage(packs, now)
	want := Coverage{
		Packs: 8, Bytes: 1127, Never: Amount{1, 1000}, Oldest: now.Add(-1000 * day),
		Within: [...]Amount{{3, 1 + 2 + 64}, {4, 1 + 2 + 4 + 64}, {5, 1 + 2 + 4 + 8 + 64}, {6, 1 + 2 + 4 + 8 + 16 + 64}},
	}
	if got != want {
		t.Errorf("coverage %+v, want %+v", got, want)
	}
	if empty := (Record{}).Coverage(nil, now); empty != (Coverage{}) {
		t.Errorf("of nothing %+v", empty)
	}
}
