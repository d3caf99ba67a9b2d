package manifest

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"pgregory.net/rapid"
)

func drawManifest(t *rapid.T) *Manifest {
	m := &Manifest{
		Root:        testID(1),
		Time:        Time{Sec: rapid.Int64().Draw(t, "sec"), Nsec: rapid.Uint32Range(0, 999_999_999).Draw(t, "nsec")},
		Source:      rapid.StringN(0, 100, -1).Draw(t, "source"),
		Labels:      []Label{},
		Consistency: Consistency(rapid.IntRange(1, 4).Draw(t, "consistency")),
		Omissions:   []Omission{},
		Tool:        rapid.StringN(0, 30, maxTool).Draw(t, "tool"),
	}
	if rapid.Bool().Draw(t, "links") {
		m.Links = testID(2)
	}
	if rapid.Bool().Draw(t, "parent") {
		m.Parent = testID(3)
	}
	for _, f := range m.Counts.fields() {
		*f = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "count")
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "labels") {
		m.Labels = append(m.Labels, Label{string(rune('a' + i)), rapid.StringN(0, 20, -1).Draw(t, "value")})
	}
	for range rapid.IntRange(0, 5).Draw(t, "omissions") {
		m.Omissions = append(m.Omissions, Omission{
			rapid.StringN(0, 50, -1).Draw(t, "path"), OmissionClass(rapid.IntRange(1, 4).Draw(t, "class")), rapid.StringN(0, 50, -1).Draw(t, "reason")})
	}
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawManifest(t)
		if err := want.Check(); err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(want.Encode()); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestManifestIsCanonical(t *testing.T) {
	encoded := goldenManifest().Encode()
	check := func(altered []byte, what string, at int) {
		t.Helper()
		m, err := Decode(altered)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s %d: %v", what, at, err)
		}
		if err == nil && !bytes.Equal(m.Encode(), altered) {
			t.Fatalf("%s %d: % x re-encodes to % x", what, at, altered, m.Encode())
		}
	}
	for bit := range 8 * len(encoded) {
		altered := bytes.Clone(encoded)
		altered[bit/8] ^= 1 << (bit % 8)
		check(altered, "bit", bit)
	}
	for n := range len(encoded) {
		if _, err := Decode(encoded[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes of %d: %v", n, len(encoded), err)
		}
		check(append(bytes.Clone(encoded[:n]), encoded[n+1:]...), "without byte", n)
		check(append(append(bytes.Clone(encoded[:n]), 0), encoded[n:]...), "with a zero at", n)
	}
	if _, err := Decode(append(bytes.Clone(encoded), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestManifestsThatCannotBeStored(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, change := range map[string]func(*Manifest){
		"no root":          func(m *Manifest) { m.Root = blob.ID{} },
		"nanoseconds":      func(m *Manifest) { m.Time.Nsec = 1e9 },
		"long source":      func(m *Manifest) { m.Source = long(MaxSource + 1) },
		"labels unsorted":  func(m *Manifest) { m.Labels = []Label{{"b", ""}, {"a", ""}} },
		"label twice":      func(m *Manifest) { m.Labels = []Label{{"a", "1"}, {"a", "2"}} },
		"long label key":   func(m *Manifest) { m.Labels = []Label{{long(MaxLabelKey + 1), ""}} },
		"long label value": func(m *Manifest) { m.Labels = []Label{{"a", long(MaxLabelValue + 1)}} },
		"many labels":      func(m *Manifest) { m.Labels = manyLabels(MaxLabels + 1) },
		"no consistency":   func(m *Manifest) { m.Consistency = 0 },
		"consistency 5":    func(m *Manifest) { m.Consistency = 5 },
		"count of 2^63":    func(m *Manifest) { m.Counts.Vanished = 1 << 63 },
		"class 0":          func(m *Manifest) { m.Omissions = []Omission{{Path: "a"}} },
		"class 5":          func(m *Manifest) { m.Omissions = []Omission{{Path: "a", Class: 5}} },
		"long path":        func(m *Manifest) { m.Omissions = []Omission{{long(MaxPath + 1), Excluded, ""}} },
		"long reason":      func(m *Manifest) { m.Omissions = []Omission{{"a", Excluded, long(MaxReason + 1)}} },
		"many omissions":   func(m *Manifest) { m.Omissions = make([]Omission, MaxOmissions+1) },
		"too many bytes":   func(m *Manifest) { m.Omissions = bigOmissions(MaxManifest/MaxPath + 1) },
		"long tool":        func(m *Manifest) { m.Tool = long(maxTool + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			m := goldenManifest()
			change(m)
			if err := m.Check(); !errors.Is(err, ErrInvalid) {
				t.Errorf("Check = %v, want ErrInvalid", err)
			}
			if _, err := Decode(m.Encode()); !errors.Is(err, ErrDamaged) {
				t.Errorf("Decode = %v, want ErrDamaged", err)
			}
		})
	}
}

func manyLabels(n int) (labels []Label) {
	for i := range n {
		labels = append(labels, Label{Key: string([]byte{byte(i>>7) + 1, byte(i&127) + 1})})
	}
	return labels
}

func bigOmissions(n int) (omissions []Omission) {
	for range n {
		omissions = append(omissions, Omission{strings.Repeat("p", MaxPath), Excluded, ""})
	}
	return omissions
}

func TestUnknownManifestVersion(t *testing.T) {
	b := goldenManifest().Encode()
	b[0] = 1
	if _, err := Decode(b); err == nil || !strings.Contains(err.Error(), "version 1 is not known") {
		t.Errorf("Decode of version 1 = %v", err)
	}
}

func TestNamesOfValues(t *testing.T) {
	for got, want := range map[string]string{
		File.String(): "file", BlockDevice.String(): "blockdev", EntryKind(99).String(): "kind 99",
		Quiesced.String(): "quiesced", Torn.String(): "torn", Consistency(9).String(): "unknown",
		Excluded.String(): "excluded", Unsupported.String(): "unsupported", OmissionClass(9).String(): "unknown",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Time{Sec: rapid.Int64Range(-1<<40, 1<<40).Draw(t, "sec"), Nsec: rapid.Uint32Range(0, 999_999_999).Draw(t, "nsec")}
		if got := TimeOf(want.Time()); got != want {
			t.Fatalf("%v becomes %v", want, got)
		}
	})
}
