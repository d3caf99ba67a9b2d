package blob

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestIDsAreGolden(t *testing.T) {
	n := NewNamer([32]byte{1, 2, 3})
	for _, tc := range []struct {
		kind Kind
		text string
		want string
	}{
		{Data, "", "6b6ec6d2be486756a06d7bb0c56981d14216898695a41532c70ab96660ad25ec"},
		{Data, "hello", "7e1087f61e6e6a5ead8b34b16f787126a7df5885d5395c2293bb3be07bc47fee"},
		{Tree, "hello", "50a31edfc140083af797882f90b52a4847cc6e8a3e1205558d1648253764e84c"},
		{Manifest, "hello", "e370825223250e48b16579881cc0e09921e78284a596edb4707e7904d1fd311f"},
	} {
		if got := n.ID(tc.kind, []byte(tc.text)).String(); got != tc.want {
			t.Errorf("ID(%v, %q) = %s, want %s", tc.kind, tc.text, got, tc.want)
		}
	}
}

func TestIDDependsOnFamilyAndKind(t *testing.T) {
	a, b := NewNamer([32]byte{1}), NewNamer([32]byte{2})
	seen := map[ID]bool{}
	for _, n := range []*Namer{a, b} {
		for kind := Data; kind <= Manifest; kind++ {
			seen[n.ID(kind, []byte("same"))] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d distinct ids for 6 family and kind pairs", len(seen))
	}
}

func TestNamerIsSafeForConcurrentUse(t *testing.T) {
	n := NewNamer([32]byte{9})
	want := n.ID(Data, []byte("content"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if n.ID(Data, []byte("content")) != want {
					t.Error("id differs between goroutines")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestParseID(t *testing.T) {
	id := NewNamer([32]byte{}).ID(Data, []byte("x"))
	if got, err := ParseID(id.String()); err != nil || got != id {
		t.Errorf("ParseID(String) = %v, %v", got, err)
	}
	for _, bad := range []string{"", "ab", strings.Repeat("g", 64), strings.ToUpper(id.String()), id.String() + "00"} {
		if _, err := ParseID(bad); !errors.Is(err, ErrBadID) {
			t.Errorf("ParseID(%q) = %v, want ErrBadID", bad, err)
		}
	}
}
