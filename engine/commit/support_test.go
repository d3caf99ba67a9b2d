package commit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRepo returns a repository with fixed keys over a store.
func newRepo(store objectstore.Store) Repo {
	return Repo{
		Store:  store,
		Sealer: seal.New(seal.Key{Secret: [32]byte{1}, Family: [16]byte{2}}, seal.Default),
		Namer:  blob.NewNamer([32]byte{3}),
	}
}

func pack(n byte) packfile.Name { return packfile.Name{n} }

func packs(ns ...byte) []packfile.Name {
	names := []packfile.Name{}
	for _, n := range ns {
		names = append(names, pack(n))
	}
	return names
}

func deadSet(ns ...byte) index.PackSet {
	set := index.PackSet{}
	for _, n := range ns {
		set[pack(n)] = struct{}{}
	}
	return set
}

func newRecord(ns ...byte) Record {
	return Record{
		Manifest: &manifest.Manifest{
			Root: blob.ID{9}, Time: manifest.Time{Sec: 1}, Source: "test", Consistency: manifest.Live, Tool: "test",
		},
		Packs: packs(ns...),
	}
}

// place writes what a collector would.
func place(t *testing.T, repo Repo, n uint64, kind string, ns ...byte) {
	t.Helper()
	unit := seal.Condemned
	if kind == "final" {
		unit = seal.Final
	}
	key := generationKey(n, kind)
	put(t, repo, key, sealFor(repo, key, unit, EncodeNames(packs(ns...))))
}

func put(t *testing.T, repo Repo, key string, object []byte) {
	t.Helper()
	if _, err := repo.Store.Put(t.Context(), key, bytes.NewReader(object), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, store objectstore.Store, prefix string) []string {
	t.Helper()
	all := []string{}
	for info, err := range store.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Key)
	}
	return all
}

func visible(t *testing.T, repo Repo) []blob.ID {
	t.Helper()
	var ids []blob.ID
	for ref, err := range List(t.Context(), repo, "") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ref.ID)
	}
	return ids
}

// noRescue fails the test when it is asked.
type noRescue struct{ t *testing.T }

func (r noRescue) Rescue(context.Context, Record, index.PackSet) ([]packfile.Name, error) {
	r.t.Error("rescue was asked for although no pack of the snapshot is dead")
	return nil, errors.New("unexpected")
}

// rescueInto answers with fixed packs and remembers what was dead.
type rescueInto struct {
	packs []packfile.Name
	err   error
	dead  []index.PackSet
	then  func()
}

func (r *rescueInto) Rescue(_ context.Context, _ Record, dead index.PackSet) ([]packfile.Name, error) {
	r.dead = append(r.dead, dead)
	if r.then != nil {
		r.then()
	}
	return r.packs, r.err
}

func sameSet(a, b index.PackSet) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if !b.Has(name) {
			return false
		}
	}
	return true
}

// meddler runs a function behind every put.
type meddler struct {
	objectstore.Store
	after func(key string)
}

func (m *meddler) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := m.Store.Put(ctx, key, body, opts)
	if err == nil {
		m.after(key)
	}
	return info, err
}

// afterPending returns a repository in which f happens once, right after step W4.
func afterPending(f func()) Repo {
	done := false
	return newRepo(&meddler{mem.New(), func(key string) {
		if !done && strings.HasPrefix(key, pendingPrefix) {
			done = true
			f()
		}
	}})
}
