package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Unlock tries the credentials on all keys of a repository and returns its
// material and the key that opened, the cheap kinds first. ErrWrongKey says
// what was tried and which holders there are; ErrDamaged alone that no key is
// left to try. Keys that cannot be read are passed over.
//
// A passphrase costs about 0.1 s and 32 MiB for each key of that kind. They
// cannot be interrupted; between keys ctx is honoured.
func Unlock(ctx context.Context, store objectstore.Store, repository config.ID, c Credentials) (Material, Info, error) {
	for attempt := 1; ; attempt++ {
		r, err := readRing(ctx, store, repository)
		if err != nil {
			return Material{}, Info{}, err
		}
		m, key, tried, err := r.try(ctx, c)
		if err == nil {
			return m, key, nil
		}
		if err := ctx.Err(); err != nil {
			return Material{}, Info{}, err
		}
		if r.vanished == 0 || attempt == attempts {
			return Material{}, Info{}, r.explain(repository, c, tried)
		}
	}
}

// attempts is how often Unlock lists the keys when some vanish before they are
// read: a rotation has then put another one. Nobody rotates that often in a row.
const attempts = 5

// UnlockKey is Unlock with one key, for callers who remember which one opened:
// it costs one request. An absent key is objectstore.ErrNotExist.
func UnlockKey(ctx context.Context, store objectstore.Store, repository config.ID, id ID, c Credentials) (Material, Info, error) {
	o, err := readObject(ctx, store, id)
	if err != nil {
		return Material{}, Info{}, err
	}
	if o.Repository != repository {
		return Material{}, Info{}, fmt.Errorf("key %v: %w: it belongs to repository %v", id, ErrDamaged, o.Repository)
	}
	m, err := o.open(c)
	if errors.Is(err, errNoMatch) {
		err = fmt.Errorf("%w: tried %v; key %v is for %v", ErrWrongKey, c, id, o.Info)
	}
	return m, o.Info, err
}

// cost orders the kinds by what it takes to try them: microseconds, then a
// slow hash, then a program that may wait for a touch on a token.
var cost = map[Kind]int{Plain: 0, X25519: 1, Hybrid: 2, Passphrase: 3, Plugin: 4}

// try returns the first key that opens, or what went wrong with keys that
// ought to have opened.
func (r ring) try(ctx context.Context, c Credentials) (m Material, key Info, tried []error, err error) {
	byCost := slices.Clone(r.objects)
	slices.SortStableFunc(byCost, func(a, b *Object) int { return cmp.Compare(cost[a.Kind], cost[b.Kind]) })
	for _, o := range byCost {
		if err := ctx.Err(); err != nil {
			return Material{}, Info{}, nil, err
		}
		m, err := o.open(c)
		if err == nil {
			return m, o.Info, nil, nil
		}
		if !errors.Is(err, errNoMatch) {
			tried = append(tried, err)
		}
	}
	return Material{}, Info{}, tried, errNoMatch
}

// explain turns the failure of all keys into an error. A key that the store
// could not deliver may have been the right one, so that is not ErrWrongKey.
func (r ring) explain(repository config.ID, c Credentials, tried []error) error {
	if err := r.storeError(); err != nil {
		return err
	}
	problems := append(slices.Clone(r.failures), tried...)
	if len(r.objects) == 0 {
		err := fmt.Errorf("%w: repository %v has no key", ErrDamaged, repository)
		return errors.Join(append([]error{err}, problems...)...)
	}
	var holders []string
	for _, o := range r.objects {
		holders = append(holders, o.Info.String())
	}
	err := fmt.Errorf("%w: tried %v; it can be opened with: %s", ErrWrongKey, c, strings.Join(holders, ", "))
	for _, problem := range problems {
		err = fmt.Errorf("%w; %w", err, problem)
	}
	return err
}
