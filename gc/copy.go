package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// copyLive stores what is needed of the packs in the plan in new packs, and indexes
// those (step G1). It returns the packs that are not needed any more.
func (r *run) copyLive(ctx context.Context) (copied []packfile.Name, err error) {
	if len(r.Copy) == 0 {
		return nil, nil
	}
	session := r.repo.Session(ctx, r.avoid())
	defer func() { r.repo.warn("copy", session.Close()) }()
	copied, err = r.copyPacks(ctx, session.Writer())
	if err == nil || r.stop(err) {
		_, err = session.Finish(ctx)
	}
	if err != nil && !r.stop(err) {
		return nil, err
	}
	// If the store is full, some of it was stored all the same: what has no copy in
	// that is spared by the second look.
	return copied, r.indexNew(ctx)
}

// avoid returns the packs whose copies do not count for what is copied: those that
// go, and those that may not be what the index says.
func (r *run) avoid() index.PackSet {
	avoid := r.sight.generations.Dead()
	for name := range r.sight.generations.Damaged {
		avoid[name] = struct{}{}
	}
	for name := range r.sight.unsegmented {
		avoid[name] = struct{}{}
	}
	for _, packs := range [][]Pack{r.Delete, r.Copy} {
		for _, pack := range packs {
			avoid[pack.Name] = struct{}{}
		}
	}
	return avoid
}

// copyPacks copies pack after pack until the deadline.
func (r *run) copyPacks(ctx context.Context, w *ingest.Writer) (copied []packfile.Name, err error) {
	done, total := int64(0), int64(0)
	for _, pack := range r.Copy {
		total += pack.Size
	}
	for _, pack := range r.Copy {
		if !r.opts.Deadline.IsZero() && !r.opts.Now().Before(r.opts.Deadline) {
			return copied, errDeadline
		}
		c := packCopy{run: r, pack: pack, to: w}
		switch err := c.copy(ctx); {
		case errors.Is(err, objectstore.ErrNotExist): // another collector took it
		case errors.Is(err, packfile.ErrDamaged): // what could be copied was; the pack stays
			r.repo.warn(ingest.PackKey(pack.Name), fmt.Errorf("%w: run `snapctl check --read-data`", err))
		case err != nil:
			return copied, err
		default:
			copied = append(copied, pack.Name)
		}
		done += pack.Size
		r.repo.report("copy", uint64(done), uint64(total))
	}
	return copied, w.Flush(ctx)
}

// packCopy copies what is needed of one pack.
type packCopy struct {
	*run
	pack Pack
	to   *ingest.Writer
	raw  []byte // memory for frames
}

func (c *packCopy) copy(ctx context.Context) error {
	key := ingest.PackKey(c.pack.Name)
	read := func(offset, length int64) ([]byte, error) {
		return objectstore.ReadRange(ctx, c.repo.Store, key, offset, length)
	}
	described, err := packfile.ReadFooter(c.repo.Sealer, c.pack.Name, c.pack.Size, read)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	for _, frame := range described.Frames {
		wanted, err := c.claim(ctx, frame)
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			continue
		}
		sealed, err := read(int64(frame.Offset), int64(frame.Length))
		if err != nil {
			return err
		}
		if err := c.copyFrame(frame, sealed, wanted); err != nil {
			return fmt.Errorf("%s: frame at %d: %w", key, frame.Offset, err)
		}
	}
	return nil
}

// claim returns the blobs of a frame that are live and have no copy that counts, by
// their places in the frame.
func (c *packCopy) claim(ctx context.Context, frame packfile.Frame) (wanted []int, err error) {
	for i, b := range frame.Blobs {
		live, err := c.sight.has(b.ID)
		if err != nil {
			return nil, err
		}
		if !live {
			continue
		}
		claimed, err := c.to.Claim(ctx, b.ID)
		if err != nil {
			return nil, err
		}
		if claimed {
			wanted = append(wanted, i)
		}
	}
	return wanted, nil
}

// copyFrame copies a frame as it is if all of its blobs are wanted, otherwise those
// that are. Either way each blob is verified, so that damage does not spread.
func (c *packCopy) copyFrame(frame packfile.Frame, sealed []byte, wanted []int) error {
	whole := packfile.SealedFrame{Kind: frame.Kind, Blobs: frame.Blobs, Bytes: sealed}
	c.raw = append(c.raw[:0], sealed...)
	content, err := packfile.SealedFrame{Kind: frame.Kind, Blobs: frame.Blobs, Bytes: c.raw}.Verify(nil, c.repo.Sealer, c.repo.Namer)
	if err != nil {
		return err
	}
	if len(wanted) == len(frame.Blobs) {
		return c.to.StoreFrame(whole)
	}
	offset, next := 0, 0
	for i, b := range frame.Blobs {
		end := offset + int(b.Length)
		if next < len(wanted) && wanted[next] == i {
			if err := c.to.Store(frame.Kind, b.ID, content[offset:end]); err != nil {
				return err
			}
			next++
		}
		offset = end
	}
	return nil
}

// indexNew puts segments that name the new packs.
func (r *run) indexNew(ctx context.Context) error {
	fresh, err := r.repo.Index.Unsegmented(ctx)
	if err != nil {
		return err
	}
	fresh = slices.DeleteFunc(fresh, func(pack packfile.Pack) bool { return r.sight.unsegmented.Has(pack.Name) })
	segments, err := index.WriteSegments(ctx, r.repo.Store, r.repo.Sealer, fresh)
	if err != nil {
		return err
	}
	r.result.NewPacks = len(fresh)
	for _, pack := range fresh {
		r.result.NewBytes += pack.Size
	}
	return r.repo.Index.Segmented(ctx, segments...)
}
