package verified

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/wire"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden file again; only for a new format version")

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func TestGolden(t *testing.T) {
	var r Record
	r.Note(packfile.Name{2}, at(1_700_000_000))
	r.Note(packfile.Name{1}, at(-5))
	r.Note(packfile.Name{0xff, 31: 1}, at(1<<40))
	path := filepath.Join("testdata", "record.v0")
	if *update {
		if err := os.WriteFile(path, r.Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Encode(); !bytes.Equal(got, golden) {
		t.Errorf("encodes to\n%x, golden file\n%x", got, golden)
	}
	decoded, err := Decode(golden)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[packfile.Name]time.Time{{1}: at(0), {2}: at(1_700_000_000), {0xff, 31: 1}: at(maxSeconds)} {
		if got, ok := decoded.Time(name); !ok || !got.Equal(want) {
			t.Errorf("%v verified at %v, %v; want %v", name, got, ok, want)
		}
	}
	if _, ok := decoded.Time(packfile.Name{3}); ok || decoded.Len() != 3 {
		t.Errorf("%d packs, one of them unknown", decoded.Len())
	}
}

func names(t *rapid.T, label string) map[packfile.Name]int64 {
	return rapid.MapOf(
		rapid.Custom(func(t *rapid.T) packfile.Name {
			return packfile.Name{rapid.Byte().Draw(t, "first"), 31: rapid.Byte().Draw(t, "last")}
		}),
		rapid.Int64Range(0, maxSeconds)).Draw(t, label)
}

func record(times map[packfile.Name]int64) Record {
	var r Record
	for name, seconds := range times {
		r.Note(name, at(seconds))
	}
	return r
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := names(t, "times")
		encoded := record(times).Encode()
		r, err := Decode(encoded)
		if err != nil || r.Len() != len(times) || len(encoded) > MaxSize {
			t.Fatalf("%d packs of %d, %v", r.Len(), len(times), err)
		}
		for name, seconds := range times {
			if got, _ := r.Time(name); got.Unix() != seconds {
				t.Errorf("%v at %v, want %d", name, got, seconds)
			}
		}
		if !bytes.Equal(r.Encode(), encoded) {
			t.Error("encodes to something else")
		}
	})
}

func TestMergeTakesTheLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := names(t, "a"), names(t, "b")
		merged := record(a)
		merged.Merge(record(b))
		other := record(b)
		other.Merge(record(a))
		if !bytes.Equal(merged.Encode(), other.Encode()) {
			t.Error("the order of merging matters")
		}
		for name := range b {
			if got, ok := merged.Time(name); !ok || got.Unix() != max(a[name], b[name]) {
				t.Errorf("%v at %v, want the later of %d and %d", name, got, a[name], b[name])
			}
		}
	})
}

func TestHostileRecords(t *testing.T) {
	one := record(map[packfile.Name]int64{{1}: 5}).Encode()
	two := record(map[packfile.Name]int64{{1}: 5, {2}: 6}).Encode()
	swapped := append(append([]byte{2}, two[34:]...), two[1:34]...)
	late := append(bytes.Clone(one[:33]), binary.AppendUvarint(nil, maxSeconds+1)...)
	for name, b := range map[string][]byte{
		"empty": {}, "cut": two[:len(two)-1], "left over": append(bytes.Clone(one), 0), "count": binary.AppendUvarint(nil, 1<<60),
		"not sorted": swapped, "twice": append(append([]byte{2}, one[1:]...), one[1:]...), "beyond 9999": late,
	} {
		if _, err := Decode(b); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTheLatestAreKept(t *testing.T) {
	r := record(map[packfile.Name]int64{{1}: 50, {2}: 10, {3}: 40, {4}: 10, {5}: 30})
	if got := r.latest(3); len(got) != 3 || got[0] != (packfile.Name{1}) || got[1] != (packfile.Name{3}) || got[2] != (packfile.Name{5}) {
		t.Errorf("kept %v", got)
	}
	// Too many to decode are refused although the bytes are there.
	many := binary.AppendUvarint(nil, MaxPacks+1)
	many = append(many, make([]byte, (MaxPacks+1)*(nameSize+1))...)
	if _, err := Decode(many); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("%d packs: %v", MaxPacks+1, err)
	}
}

func TestDropAndKeep(t *testing.T) {
	r := record(map[packfile.Name]int64{{1}: 1, {2}: 2, {3}: 3})
	r.Drop(packfile.Name{1}, packfile.Name{9})
	r.Keep(func(name packfile.Name) bool { return name != packfile.Name{3} })
	if _, ok := r.Time(packfile.Name{2}); !ok || r.Len() != 1 {
		t.Errorf("%d packs are left", r.Len())
	}
	var none Record
	none.Drop(packfile.Name{1})
	none.Keep(func(packfile.Name) bool { return false })
	if r, err := Decode(none.Encode()); err != nil || r.Len() != 0 {
		t.Errorf("an empty record: %d packs, %v", r.Len(), err)
	}
}
