package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// checkKeys opens what a repository is opened with.
func (c *checker) checkKeys(ctx context.Context) error {
	object, err := objectstore.ReadAll(ctx, c.r.store, config.Object, config.MaxSize)
	if err == nil {
		_, err = config.Open(object, c.r.sealer)
	}
	if errors.Is(err, config.ErrNotConfig) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := c.foundIf(config.Object, err); err != nil {
		return err
	}
	for key, err := range keyring.Verify(ctx, c.r.store) {
		if err := c.foundIf(key, err); err != nil {
			return err
		}
	}
	return nil
}

// checkRecords opens what a repository keeps for its users: remotes, and what
// probes and checks found, which can be found again.
func (c *checker) checkRecords(ctx context.Context) error {
	for info, err := range c.r.store.List(ctx, remotePrefix, "") {
		if err != nil {
			return err
		}
		if err := c.checkRemote(ctx, info.Key); err != nil {
			return err
		}
	}
	_, err := c.r.guarantees(ctx)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	if err := c.foundHarmless(guaranteesObject, err); err != nil {
		return err
	}
	return c.foundHarmless(verifiedObject, c.keeper.load(ctx))
}

func (c *checker) checkRemote(ctx context.Context, key string) error {
	name := strings.TrimPrefix(key, remotePrefix)
	if checkRemoteName(name) != nil {
		return c.foundIf(key, commit.ErrForeign)
	}
	_, err := c.r.remotePlace(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return nil // removed since the listing
	}
	return c.foundIf(key, err)
}

// checkIndex loads every segment anew. A damaged one loses nothing by itself:
// what it named is found in the footers of the packs.
func (c *checker) checkIndex(ctx context.Context) error {
	stats, err := c.db.Sync(ctx, c.r.store, c.r.sealer)
	if err != nil {
		return err
	}
	for _, err := range stats.Damaged {
		object := index.Prefix
		if segment := (*index.Error)(nil); errors.As(err, &segment) {
			object = segment.Object
		}
		p, err := c.problemOf(object, err)
		if err != nil {
			return err
		}
		c.segments = append(c.segments, p)
	}
	segments, err := c.db.Segments(ctx)
	c.report.Segments = uint64(len(segments))
	return err
}

// checkedSnapshot is a published snapshot whose record can be read.
type checkedSnapshot struct {
	ref         commit.Ref
	id          ID
	root, links blob.ID
	origin      ID   // of a repaired snapshot: what it was made from
	wanted      bool // its trees are to be looked at
	affected    bool // something of it is lost
}

// checkSnapshots reads every record. Attempts are listed before: the object of one
// that ended is then in the listing of the snapshots.
func (c *checker) checkSnapshots(ctx context.Context) error {
	for pending, err := range commit.ListPending(ctx, c.r.protocol()) {
		if err != nil {
			return err
		}
		c.pending = append(c.pending, pending)
	}
	var refs []commit.Ref
	for ref, err := range commit.ListAll(ctx, c.r.protocol(), "") {
		if err != nil {
			return err
		}
		if ref.State != commit.StatePublished {
			c.tombstones[ref.Key()] = ref
			continue
		}
		c.published[ref.ID] = true
		if c.allRecords || c.wants(ref.ID) {
			refs = append(refs, ref)
		}
	}
	for ref, err := range commit.ListForgotten(ctx, c.r.protocol(), "") {
		if err != nil {
			return err
		}
		c.forgotten[ref.ID] = true
	}
	return c.loadSnapshots(ctx, refs)
}

func (c *checker) wants(id ID) bool { return !c.partial() || slices.Contains(c.opts.Snapshots, id) }

func (c *checker) loadSnapshots(ctx context.Context, refs []commit.Ref) error {
	loaded := make([]checkedSnapshot, len(refs))
	errs := make([]error, len(refs))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for i, ref := range refs {
		group.Go(func() error {
			loaded[i], errs[i] = c.loadSnapshot(gctx, ref)
			return gctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	readable := map[ID]bool{}
	for i, err := range errs {
		if err == nil {
			c.snapshots = append(c.snapshots, loaded[i])
			readable[refs[i].ID] = true
		}
	}
	for i, err := range errs {
		if err := c.unreadable(ctx, refs[i], readable[refs[i].ID], err); err != nil {
			return err
		}
	}
	for i, s := range c.snapshots { // one that was published more than once counts once
		if s.wanted && (i == 0 || c.snapshots[i-1].id != s.id) {
			c.report.Snapshots++
		}
	}
	return nil
}

func (c *checker) loadSnapshot(ctx context.Context, ref commit.Ref) (checkedSnapshot, error) {
	record, err := commit.Load(ctx, c.r.protocol(), ref)
	if err != nil {
		return checkedSnapshot{}, err
	}
	m := record.Manifest
	return checkedSnapshot{ref: ref, id: ref.ID, root: m.Root, links: m.Links, origin: repairedFrom(m), wanted: c.wants(ref.ID)}, nil
}

// brokenSnapshot is an object at the key of a snapshot that cannot be read.
type brokenSnapshot struct {
	ref      commit.Ref
	err      error
	harmless bool // nothing is lost with it
}

// unreadable records an object that cannot be read at the key of a snapshot, unless it
// was forgotten since the listing. If the snapshot was published more than once, any
// intact record will do; and if its record is kept for an undo, the object was, or was
// about to become, a tombstone.
func (c *checker) unreadable(ctx context.Context, ref commit.Ref, elsewhere bool, err error) error {
	if errors.Is(err, commit.ErrNotFound) || !c.wants(ref.ID) {
		return nil
	}
	p, err := c.problemOf(ref.Key(), err)
	if p == nil {
		return err
	}
	harmless := elsewhere
	if !harmless {
		if harmless, err = c.keeps(ctx, ref); err != nil {
			return err
		}
	}
	c.broken = append(c.broken, brokenSnapshot{ref, p.Err, harmless})
	if harmless {
		p.Harmless = true
	} else {
		p.Affected = []AffectedPath{{Snapshot: ref.ID}}
	}
	return nil
}

// keeps reports whether what stood at this very key is kept for an undo. A record that
// was kept when another attempt was forgotten says nothing: the snapshot was taken back.
func (c *checker) keeps(ctx context.Context, ref commit.Ref) (bool, error) {
	_, err := commit.LoadForgotten(ctx, c.r.protocol(), ref)
	if errors.Is(err, commit.ErrNotFound) || errors.Is(err, ErrDamaged) {
		return false, nil
	}
	return err == nil, err
}

// checkProtocol opens the other small objects. Without the record of a forgotten
// snapshot only its undoing is lost.
func (c *checker) checkProtocol(ctx context.Context) error {
	for key, err := range commit.Verify(ctx, c.r.protocol()) {
		found := c.foundIf
		if strings.HasPrefix(key, forgottenPrefix) || errors.Is(err, commit.ErrUnneeded) {
			found = c.foundHarmless
		}
		if ref, ok := c.tombstones[key]; ok {
			// It may have been a snapshot that was cut off.
			found = func(_ string, err error) error { return c.unreadable(ctx, ref, c.published[ref.ID], err) }
		}
		if err := found(key, err); err != nil {
			return err
		}
	}
	return nil
}

const forgottenPrefix = "forgotten/"

// repairedFrom returns the snapshot that a repaired one was made from; zero if it is
// not one.
func repairedFrom(m *manifest.Manifest) ID {
	for _, l := range m.Labels {
		if l.Key == RepairedFrom && l.Value == m.Parent.String() {
			return m.Parent
		}
	}
	return ID{}
}
