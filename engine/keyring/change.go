package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Create stores the first keys of a repository, one for each holder. Put the
// config afterwards: until then the keys are of no repository, and those that
// a failed Create leaves behind do no harm.
func Create(ctx context.Context, store objectstore.Store, repository config.ID, m Material, holders ...Holder) ([]Info, error) {
	if len(holders) == 0 {
		return nil, fmt.Errorf("%w: a repository needs a holder", ErrInvalid)
	}
	keys := make([]Info, 0, len(holders))
	for _, h := range holders {
		key, err := Add(ctx, store, repository, m, h)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Add stores a key for one more holder. Material that does not open the
// repository is ErrInvalid. Before it is stored, the key is opened again if the
// holder's secret is known; afterwards it is read back.
func Add(ctx context.Context, store objectstore.Store, repository config.ID, m Material, h Holder) (Info, error) {
	r, err := readRing(ctx, store, repository)
	if err != nil {
		return Info{}, err
	}
	if len(r.objects) > 0 && len(r.withFingerprint(m.Fingerprint())) == 0 {
		return Info{}, fmt.Errorf("add key: %w: the material is not that of repository %v", ErrInvalid, repository)
	}
	if len(r.objects)+len(r.failures) >= MaxKeys {
		return Info{}, fmt.Errorf("add key: %w: there are %d keys already", ErrInvalid, MaxKeys)
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	o, err := wrap(repository, m, h, time.Now())
	if err != nil {
		return Info{}, err
	}
	if err := put(ctx, store, o); err != nil {
		return Info{}, err
	}
	return o.Info, nil
}

func (r ring) withFingerprint(f Fingerprint) []*Object {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o *Object) bool { return o.Fingerprint != f })
}

// put stores a key object and reads it back, which also tells a lost answer
// from a failure: its name is its hash.
func put(ctx context.Context, store objectstore.Store, o *Object) error {
	_, err := store.Put(ctx, objectName(o.ID), bytes.NewReader(o.Encode()), objectstore.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, objectstore.ErrExist) {
		return fmt.Errorf("store key: %w", err)
	}
	if _, err := readObject(ctx, store, o.ID); err != nil {
		return fmt.Errorf("read back what was stored: %w", err)
	}
	return nil
}

// Rotate replaces a key: it adds one for the new holder and then removes the
// old one. At every moment one of them opens. If the error is about the
// removal, the returned key is already there and the old one may still be. The
// old key must wrap the same material.
func Rotate(ctx context.Context, store objectstore.Store, repository config.ID, m Material, old ID, h Holder) (Info, error) {
	o, err := readObject(ctx, store, old)
	if err != nil {
		return Info{}, err
	}
	if o.Repository != repository || o.Fingerprint != m.Fingerprint() {
		return Info{}, fmt.Errorf("rotate key %v: %w: it is not a key of this repository and material", old, ErrInvalid)
	}
	key, err := Add(ctx, store, repository, m, h)
	if err != nil {
		return Info{}, err
	}
	return key, Remove(ctx, store, repository, old)
}

// Remove deletes a key, unless it is the last one that can be read: then it is
// ErrLastKey, and nothing is deleted. A key that is not there is
// objectstore.ErrNotExist.
//
// Of several removers at the same time none may rely on a key that another one
// is about to delete. So a remover (1) puts a mark of its own that names its
// key, (2) lists all marks, (3) lists and reads the keys, and (4) deletes its
// key only if another one is there that no mark names. It takes its mark back
// when it gives up or when the key is gone, never in between. If R relies on
// the key of S, then R did not see S's mark, hence S put it after R had put its
// own. So whom one relies on is always later, and the last remover relies on a
// key that stays.
//
// A remover that dies leaves its mark. The key still opens, but does not count
// as a key that stays; removing it again finishes the work.
func Remove(ctx context.Context, store objectstore.Store, repository config.ID, id ID) error {
	if _, err := store.Stat(ctx, objectName(id)); err != nil {
		return fmt.Errorf("remove key: %w", err)
	}
	mark := newMark(id)
	if _, err := store.Put(ctx, mark, bytes.NewReader(nil), objectstore.PutOptions{}); err != nil {
		return fmt.Errorf("mark key for removal: %w", err)
	}
	marks, err := listMarks(ctx, store)
	if err != nil {
		return errors.Join(err, unmark(ctx, store, mark))
	}
	if err := checkRemaining(ctx, store, repository, id, marks); err != nil {
		return errors.Join(err, unmark(ctx, store, mark))
	}
	if err := store.Delete(ctx, objectName(id)); err != nil {
		return fmt.Errorf("remove key: %w", err) // perhaps it is gone: the mark stays
	}
	return unmark(ctx, store, append(marks[id], mark)...)
}

// checkRemaining fails unless a key would remain without the one of id.
func checkRemaining(ctx context.Context, store objectstore.Store, repository config.ID, id ID, marks map[ID][]string) error {
	r, err := readRing(ctx, store, repository)
	if err != nil {
		return err
	}
	candidates := r.objects
	for _, o := range r.objects {
		if o.ID == id { // a key of the repository: one of the same material must remain
			candidates = r.withFingerprint(o.Fingerprint)
		}
	}
	var leaving []string
	for _, o := range candidates {
		switch {
		case o.ID == id:
		case len(marks[o.ID]) == 0:
			return nil
		default:
			leaving = append(leaving, o.ID.String())
		}
	}
	if err := r.storeError(); err != nil {
		return fmt.Errorf("remove key %v: no other key could be read: %w", id, err)
	}
	if len(leaving) > 0 {
		return fmt.Errorf("remove key %v: %w: the removal of %s has begun", id, ErrLastKey, strings.Join(leaving, ", "))
	}
	return fmt.Errorf("remove key %v: %w", id, ErrLastKey)
}

// listMarks lists the marks of removals by the keys that they name.
func listMarks(ctx context.Context, store objectstore.Store) (map[ID][]string, error) {
	marks := make(map[ID][]string)
	listed := 0
	for info, err := range store.List(ctx, removing, "") {
		if err != nil {
			return nil, fmt.Errorf("list removals of keys: %w", err)
		}
		if listed++; listed > maxListed {
			return nil, fmt.Errorf("list removals of keys: more than %d", maxListed)
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(info.Key, removing), "-")
		if id, err := ParseID(text); err == nil {
			marks[id] = append(marks[id], info.Key)
		}
	}
	return marks, nil
}

func unmark(ctx context.Context, store objectstore.Store, marks ...string) error {
	for _, mark := range marks {
		if err := store.Delete(ctx, mark); err != nil {
			return fmt.Errorf("end removal of key: %w", err)
		}
	}
	return nil
}
