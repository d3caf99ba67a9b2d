package keyring

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/providers/objectstore"
	"golang.org/x/sync/errgroup"
)

// The objects of this package in a store:
//
//	keys/<id>                      a key object; the id in 32 hexadecimal digits
//	keys/removing-<id>-<random>    an empty object: somebody is removing that key;
//	                               random is 32 hexadecimal digits (see Remove)
const removing = Prefix + "removing-"

// Prefix is what the names of all objects of this package start with.
const Prefix = "keys/"

// MaxKeys is how many keys a repository can have: it bounds the memory of
// reading them all to 16 MiB.
const MaxKeys = 256

// maxListed bounds a listing: keys, and marks that removals left behind.
const maxListed = 4096

func objectName(id ID) string { return Prefix + id.String() }

func newMark(id ID) string {
	var random [16]byte
	rand.Read(random[:])
	return removing + id.String() + "-" + hex.EncodeToString(random[:])
}

// ring is what a store holds of keys.
type ring struct {
	objects  []*Object // that can be read, by creation time and id, of one repository
	failures []error   // one for each object that cannot be read
	vanished int       // objects that were listed and then gone
}

// readRing reads the key objects of a repository. Objects of another one are
// passed over: an init that failed may have left them.
func readRing(ctx context.Context, store objectstore.Store, repository config.ID) (ring, error) {
	ids, err := listIDs(ctx, store)
	if err != nil {
		return ring{}, err
	}
	objects := make([]*Object, len(ids))
	failures := make([]error, len(ids))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, id := range ids {
		group.Go(func() error {
			objects[i], failures[i] = readObject(groupCtx, store, id)
			return groupCtx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return ring{}, err
	}
	var r ring
	for i, err := range failures {
		switch {
		case errors.Is(err, objectstore.ErrNotExist):
			r.vanished++
		case err != nil:
			r.failures = append(r.failures, err)
		case objects[i].Repository == repository:
			r.objects = append(r.objects, objects[i])
		}
	}
	slices.SortFunc(r.objects, func(a, b *Object) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return r, nil
}

// storeError returns a failure that is not the fault of the key: read again, the
// key may be sound.
func (r ring) storeError() error {
	for _, err := range r.failures {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, config.ErrNewerVersion) {
			return err
		}
	}
	return nil
}

// listIDs lists the key objects. Names that are none are left alone.
func listIDs(ctx context.Context, store objectstore.Store) ([]ID, error) {
	var ids []ID
	listed := 0
	for info, err := range store.List(ctx, Prefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		if listed++; listed > maxListed {
			return nil, fmt.Errorf("list keys: more than %d objects below %s", maxListed, Prefix)
		}
		if id, err := ParseID(strings.TrimPrefix(info.Key, Prefix)); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) > MaxKeys {
		return nil, fmt.Errorf("list keys: %d keys, more than %d", len(ids), MaxKeys)
	}
	return ids, nil
}

// readObject reads a key object and checks that it has its name.
func readObject(ctx context.Context, store objectstore.Store, id ID) (*Object, error) {
	b, err := objectstore.ReadAll(ctx, store, objectName(id), MaxObject)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if got := idOf(b); got != id {
		return nil, fmt.Errorf("key %v: %w: content has another name", id, ErrDamaged)
	}
	return DecodeObject(b)
}

// List describes the keys of a repository, oldest first. No secret is needed,
// and nothing is authenticated but by the hash in a key's name. If the error
// is about single keys that cannot be read, the others are returned with it; it
// then wraps ErrDamaged, config.ErrNewerVersion or the error of the store.
func List(ctx context.Context, store objectstore.Store, repository config.ID) ([]Info, error) {
	r, err := readRing(ctx, store, repository)
	if err != nil {
		return nil, err
	}
	keys := make([]Info, len(r.objects))
	for i, o := range r.objects {
		keys[i] = o.Info
	}
	return keys, errors.Join(r.failures...)
}
