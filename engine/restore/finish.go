package restore

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sync/errgroup"
)

// finisher is the second walk: it makes symlinks and special files, deletes
// what is extra, and then sets the metadata of directories, from the bottom up.
type finisher struct {
	*session
	group *errgroup.Group
	seed  maphash.Seed
	tidy  bool // extra or left-over names are looked for
}

// rest is what is left to do in a directory once all below it is done.
type rest struct {
	special []*manifest.Entry
	names   []uint64 // hashes of the names in the snapshot
}

// maxRest bounds the symlinks and special files that wait.
const maxRest = 4096

// finish runs the second walk. The root comes last, when nothing else remains.
func (s *session) finish(ctx context.Context) error {
	f := &finisher{session: s, seed: maphash.MakeSeed(), tidy: s.opts.Delete || s.place.leftovers}
	var walkCtx context.Context
	f.group, walkCtx = errgroup.WithContext(ctx)
	f.group.SetLimit(s.opts.Workers)
	walkErr := s.walk(walkCtx, f)
	if err := f.group.Wait(); err != nil {
		return err
	}
	if walkErr != nil {
		return walkErr
	}
	if err := s.place.unmark(); err != nil {
		return &Error{Op: "remove the marker in", Path: s.opts.Target, Err: err}
	}
	s.at("finish", "")
	return f.finishDir(ctx, s.root, s.root.fd, &s.rootEntry)
}

func (f *finisher) enter(ctx context.Context, d *dir, e *manifest.Entry) error {
	if d.parent != nil {
		d.private = f.place.pristine
	}
	_, err := f.handles.acquire(d)
	if err == nil {
		f.handles.release(d)
		return nil
	}
	if err := f.failed(ctx, "open directory", place{d, ""}, err); err != nil {
		return err
	}
	return errSkip
}

func (f *finisher) entry(ctx context.Context, d *dir, e *manifest.Entry) error {
	if f.tidy {
		d.rest.names = append(d.rest.names, maphash.String(f.seed, e.Name))
	}
	if e.Kind == manifest.File || e.Kind == manifest.Dir {
		return nil
	}
	d.rest.special = append(d.rest.special, e)
	if len(d.rest.special) < maxRest {
		return nil
	}
	return f.flushSpecial(ctx, d)
}

func (f *finisher) flushSpecial(ctx context.Context, d *dir) error {
	special := d.rest.special
	d.rest.special = nil
	if len(special) == 0 {
		return nil
	}
	dirfd, err := f.handles.acquire(d)
	if err != nil {
		return f.failed(ctx, "open directory", place{d, ""}, err)
	}
	defer f.handles.release(d)
	for _, e := range special {
		at := place{d, e.Name}
		if lead, member := f.links.role(at); lead != nil || member || reserved(at) {
			continue // done with the files
		}
		f.count(e)
		if err := f.settleSpecial(ctx, at, dirfd, e, nil); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *finisher) listed(context.Context, *dir) error { return nil }

// leave finishes d in another goroutine. It is opened here: later the mode of
// its parent may forbid that.
func (f *finisher) leave(ctx context.Context, d *dir, e *manifest.Entry) error {
	dirfd, err := f.handles.acquire(d)
	if err != nil {
		return f.failed(ctx, "open directory", place{d, ""}, err)
	}
	f.group.Go(func() error {
		defer f.done(d)
		if err := f.flushSpecial(ctx, d); err != nil {
			return err
		}
		if err := f.removeExtra(ctx, d, dirfd); err != nil {
			return err
		}
		if d.parent == nil {
			return nil
		}
		f.at("finish", d.name)
		return f.finishDir(ctx, d, dirfd, e)
	})
	return nil
}

// removeExtra removes what the snapshot lacks, if that was asked for, and
// temporary files of a run that was killed.
func (f *finisher) removeExtra(ctx context.Context, d *dir, dirfd int) error {
	names := d.rest.names
	d.rest.names = nil
	if !f.tidy || d.broken || d.private {
		return nil
	}
	slices.Sort(names)
	for name, err := range dirNames(dirfd) {
		if err != nil {
			return f.failed(ctx, "list", place{d, ""}, err)
		}
		if _, wanted := slices.BinarySearch(names, maphash.String(f.seed, name)); wanted || reserved(place{d, name}) {
			continue
		}
		leftover := f.place.leftovers && isTemp(name)
		if !leftover && !f.deletes(d) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.removeOne(ctx, place{d, name}); err != nil {
			return err
		}
	}
	return nil
}

func (f *finisher) removeOne(ctx context.Context, at place) error {
	f.at("delete", at.name)
	err := f.change(at.dir, func(dirfd int) error {
		removed, err := f.removeTree(dirfd, at.name)
		f.rep.add(func(r *Result) { r.Deleted += removed })
		return err
	})
	return f.failed(ctx, "delete", at, err)
}

// finishDir sets the metadata of a directory. One that is only on the way to
// what was chosen keeps its own, unless this run made it.
func (s *session) finishDir(ctx context.Context, d *dir, dirfd int, e *manifest.Entry) error {
	at := place{d, ""}
	o := object{fd: dirfd}
	st, err := o.stat()
	if err != nil {
		return s.failed(ctx, "set metadata of", at, err)
	}
	if !d.whole && !s.place.pristine && !s.madeOnWay[at.path()] {
		return nil
	}
	is := stateOf(&st)
	is.noAttr = s.place.pristine
	if ok, err := s.metaRight(is, o, e); err == nil && ok {
		return nil
	}
	if d.parent != nil { // the root is done when the marker is gone
		if err := s.place.touch(); err != nil {
			return s.failed(ctx, "set metadata of", at, err)
		}
	}
	return s.failed(ctx, "set metadata of", at, s.apply(ctx, o, is, e, at))
}
