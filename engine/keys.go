package engine

import (
	"context"

	"github.com/snapctl/snapctl/engine/keyring"
)

// Keys lists the keys of the repository: who can open it.
func (r *Repository) Keys(ctx context.Context) ([]KeyInfo, error) {
	keys, err := keyring.List(ctx, r.store, r.config.Repository)
	return keys, failed("list keys", "", err)
}

// AddKey lets another holder open the repository.
func (r *Repository) AddKey(ctx context.Context, holder keyring.Holder) (KeyInfo, error) {
	key, err := keyring.Add(ctx, r.store, r.config.Repository, r.material, holder)
	return key, failed("add key", "", err)
}

// RemoveKey deletes a key. The last one cannot be removed. Whoever has opened
// the repository with it may have kept what it protects.
func (r *Repository) RemoveKey(ctx context.Context, id string) error {
	return failed("remove key", id, r.removeKey(ctx, id))
}

func (r *Repository) removeKey(ctx context.Context, name string) error {
	id, err := keyring.ParseID(name)
	if err != nil {
		return err
	}
	return keyring.Remove(ctx, r.store, r.config.Repository, id)
}

// RotateKey replaces a key by one for another holder: the new one is there and
// proven before the old one goes.
func (r *Repository) RotateKey(ctx context.Context, name string, holder keyring.Holder) (KeyInfo, error) {
	id, err := keyring.ParseID(name)
	if err != nil {
		return KeyInfo{}, failed("rotate key", name, err)
	}
	key, err := keyring.Rotate(ctx, r.store, r.config.Repository, r.material, id, holder)
	return key, failed("rotate key", name, err)
}
