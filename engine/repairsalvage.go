package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// salvage stores again what can be read of the damaged packs and has no copy
// outside all packs to avoid, and indexes it. It is settled unless collections or
// checks declared more packs dead or damaged meanwhile: a copy that was relied on
// may be in one.
func (r *Repository) salvage(ctx context.Context, damaged index.PackSet, result *RepairPacksResult) (settled bool, err error) {
	ground, err := r.freshGround(ctx)
	if err != nil {
		return false, err
	}
	if err := r.dropLost(ctx, ground.db); err != nil {
		return false, err
	}
	listed, err := r.listedPacks(ctx)
	if err != nil {
		return false, err
	}
	session := r.session(ctx, ground.db, ground.view.Avoid())
	defer func() { r.opts.Events.warn("close the session of", "repair", session.Close()) }()
	writer := session.Writer()
	err = r.describePacks(ctx, damaged, listed, func(pack packfile.Pack) error { return r.salvagePack(ctx, writer, pack, listed[pack.Name]) })
	if err != nil {
		return false, err
	}
	written, err := r.finish(ctx, ground.db, session)
	if err != nil {
		return false, err
	}
	result.Blobs += written.stats.NewBlobs
	result.Bytes += written.stats.NewBytes
	result.NewPacks += uint64(written.count)
	result.StoredBytes += written.stats.StoredBytes + written.index
	r.opts.Events.warn("compact", "index", r.compact(ctx, ground.db))
	now, err := commit.ReadView(ctx, r.protocol(), ground.view)
	return err == nil && ground.view.Covers(now), err
}

// salvagePack stores the blobs of a pack that can be read. Memory: the pack and the
// content of a frame.
func (r *Repository) salvagePack(ctx context.Context, w *ingest.Writer, pack packfile.Pack, size int64) error {
	if size > packfile.MaxSize {
		return nil
	}
	object, err := objectstore.ReadAll(ctx, r.store, packKey(pack.Name), size)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var content []byte
	for _, frame := range pack.Frames {
		end := int64(frame.Offset) + int64(frame.Length)
		if end > int64(len(object)) {
			continue
		}
		opened, err := frame.Open(content[:0], r.sealer, object[frame.Offset:end])
		if err != nil {
			continue
		}
		content = opened
		if err := r.salvageFrame(ctx, w, frame, content); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) salvageFrame(ctx context.Context, w *ingest.Writer, frame packfile.Frame, content []byte) error {
	for _, b := range frame.Blobs {
		plaintext := content[:b.Length]
		content = content[b.Length:]
		if packfile.VerifyBlob(r.namer, frame.Kind, b.ID, plaintext) != nil {
			continue
		}
		claimed, err := w.Claim(ctx, b.ID)
		if err != nil {
			return err
		}
		if !claimed {
			continue
		}
		if err := w.Store(frame.Kind, b.ID, plaintext); err != nil {
			return err
		}
	}
	return nil
}

// describePacks yields the descriptions of packs, from their footers, or else as
// index segments have them. Packs of which neither is left are passed over. listed
// are the packs in the store, with their sizes. Memory: one segment.
func (r *Repository) describePacks(ctx context.Context, names index.PackSet, listed map[packfile.Name]int64, yield func(packfile.Pack) error) error {
	silent := index.PackSet{} // without a footer
	for _, name := range ascending(names) {
		pack, err := r.readFooter(ctx, name, listed)
		if _, ok := lost(err); ok {
			silent[name] = struct{}{}
			continue
		}
		if err != nil {
			return err
		}
		if err := yield(pack); err != nil {
			return err
		}
	}
	return r.describeFromIndex(ctx, silent, yield)
}

// describeFromIndex yields the descriptions of packs that index segments have. Each
// is taken out of names.
func (r *Repository) describeFromIndex(ctx context.Context, names index.PackSet, yield func(packfile.Pack) error) error {
	if len(names) == 0 {
		return nil
	}
	segments, err := index.ListSegments(ctx, r.store)
	if err != nil {
		return err
	}
	for _, segment := range segments {
		packs, err := index.ReadSegment(ctx, r.store, r.sealer, segment.Name)
		if _, ok := lost(err); err != nil && !ok {
			return err
		}
		for _, pack := range packs {
			if !names.Has(pack.Name) {
				continue
			}
			delete(names, pack.Name)
			if err := yield(pack); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFooter is objectstore.ErrNotExist if the pack is not listed.
func (r *Repository) readFooter(ctx context.Context, name packfile.Name, listed map[packfile.Name]int64) (packfile.Pack, error) {
	size, there := listed[name]
	if !there {
		return packfile.Pack{}, objectstore.ErrNotExist
	}
	return packfile.ReadFooter(r.sealer, name, size, r.readPart(ctx, name))
}

// listedPacks lists the packs in the store, with their sizes in bytes.
func (r *Repository) listedPacks(ctx context.Context) (map[packfile.Name]int64, error) {
	listed := map[packfile.Name]int64{}
	for info, err := range r.store.List(ctx, packPrefix, "") {
		if err != nil {
			return nil, err
		}
		if name, err := packfile.ParseName(strings.TrimPrefix(info.Key, packPrefix)); err == nil {
			listed[name] = info.Size
		}
	}
	return listed, nil
}

// ascending returns the keys of a map of packs, ascending.
func ascending[V any](packs map[packfile.Name]V) []packfile.Name {
	return slices.SortedFunc(maps.Keys(packs), packfile.Name.Compare)
}
