package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Remote is the place of another repository under a short name. What a place is,
// the user of the library says: the command line keeps paths and URLs.
type Remote struct {
	Name  string
	Place string
}

// remotePrefix starts the keys of the remotes. The content of remotes/<name>, sealed:
//
//	string  name, so that nobody can exchange two remotes
//	string  place
const remotePrefix = "remotes/"

// The bounds of a remote in bytes.
const (
	MaxRemoteName  = 64
	MaxRemotePlace = 4 << 10

	maxRemote = MaxRemoteName + MaxRemotePlace + 2*binary.MaxVarintLen64
)

// Remotes lists the remotes in the order of their names.
func (r *Repository) Remotes(ctx context.Context) ([]Remote, error) {
	var remotes []Remote
	for info, err := range r.store.List(ctx, remotePrefix, "") {
		if err != nil {
			return nil, failed("list", "remotes", err)
		}
		remote, err := r.Remote(ctx, strings.TrimPrefix(info.Key, remotePrefix))
		if errors.Is(err, ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		remotes = append(remotes, remote)
	}
	return remotes, nil
}

// Remote returns one remote; ErrNotFound if there is none of the name.
func (r *Repository) Remote(ctx context.Context, name string) (Remote, error) {
	place, err := r.remotePlace(ctx, name)
	return Remote{name, place}, failed("find remote", name, err)
}

func (r *Repository) remotePlace(ctx context.Context, name string) (string, error) {
	if err := checkRemoteName(name); err != nil {
		return "", err
	}
	sealed, err := objectstore.ReadAll(ctx, r.store, remotePrefix+name, maxRemote+seal.Overhead)
	if errors.Is(err, objectstore.ErrNotExist) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", err
	}
	content, err := r.sealer.Open(nil, seal.Remote, sealed, maxRemote)
	if err != nil {
		return "", fmt.Errorf("%s: %w", remotePrefix+name, err)
	}
	d := wire.NewDecoder(remotePrefix+name, content)
	if string(d.String(MaxRemoteName)) != name {
		d.Fail("it is another remote")
	}
	place := string(d.String(MaxRemotePlace))
	return place, d.Finish()
}

// SetRemote adds a remote, or changes its place.
func (r *Repository) SetRemote(ctx context.Context, remote Remote) error {
	return failed("set remote", remote.Name, r.setRemote(ctx, remote))
}

func (r *Repository) setRemote(ctx context.Context, remote Remote) error {
	if err := checkRemoteName(remote.Name); err != nil {
		return err
	}
	if remote.Name[0] == '-' {
		return errors.New("a remote's name does not start with '-', which looks like an option")
	}
	if remote.Place == "" || len(remote.Place) > MaxRemotePlace {
		return fmt.Errorf("its place has 1 to %d bytes, not %d", MaxRemotePlace, len(remote.Place))
	}
	content := wire.AppendString(wire.AppendString(nil, remote.Name), remote.Place)
	sealed := r.sealer.Seal(nil, seal.Remote, content, content)
	_, err := r.store.Put(ctx, remotePrefix+remote.Name, bytes.NewReader(sealed), objectstore.PutOptions{})
	return err
}

// RemoveRemote removes a remote; ErrNotFound if there is none of the name.
func (r *Repository) RemoveRemote(ctx context.Context, name string) error {
	if _, err := r.Remote(ctx, name); err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	return failed("remove remote", name, r.store.Delete(ctx, remotePrefix+name))
}

func checkRemoteName(name string) error {
	valid := name != "" && len(name) <= MaxRemoteName && name[0] != '.' && !strings.Contains(name, "/") && objectstore.ValidKey(name) == nil
	if !valid {
		return fmt.Errorf("a remote's name has 1 to %d letters, digits, '-', '_' and '.', and starts with no '.'", MaxRemoteName)
	}
	return nil
}
