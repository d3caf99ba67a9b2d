package restore

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/engine/manifest"
)

// compare settles entries of d that are no directories. Symlinks and special
// files wait for the second walk, unless others are to be linked to them.
func (f *filler) compare(ctx context.Context, d *dir, entries []*manifest.Entry) error {
	dirfd, err := f.handles.acquire(d)
	if err != nil {
		return f.failed(ctx, "open directory", place{d, ""}, err)
	}
	defer f.handles.release(d)
	var known map[string]KnownFile
	if !d.private {
		known = f.known(ctx, d)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.compareOne(ctx, place{d, e.Name}, dirfd, e, known); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) compareOne(ctx context.Context, at place, dirfd int, e *manifest.Entry, known map[string]KnownFile) error {
	if reserved(at) {
		f.rep.skip(at.path(), "the name is reserved")
		return nil
	}
	lead, member := f.links.role(at)
	switch {
	case member:
		f.count(e)
		return nil
	case e.Kind != manifest.File && lead != nil:
		f.count(e)
		return f.settleSpecial(ctx, at, dirfd, e, lead)
	case e.Kind != manifest.File:
		return nil
	}
	f.count(e)
	var last *KnownFile
	if k, ok := known[e.Name]; ok {
		last = &k
	}
	return f.settle(ctx, at, dirfd, e, lead, last, func(v verdict) error { return f.start(ctx, at.dir, e, lead, v) })
}

// reserved tells whether the entry has the name of the marker.
func reserved(at place) bool { return at.dir.parent == nil && at.name == markerName }

// settle compares an entry with what is there and does what is to be done. What
// has to be written is written by write, which records failures itself.
func (s *session) settle(ctx context.Context, at place, dirfd int, e *manifest.Entry, lead *leader, known *KnownFile, write func(verdict) error) error {
	if at.dir.private {
		return write(create)
	}
	there, err := find(dirfd, e.Name)
	if err != nil {
		return s.failed(ctx, "look at", at, err)
	}
	v, err := s.judge(ctx, at.dir, dirfd, e, there, known)
	switch {
	case err != nil:
		return s.failed(ctx, "compare", at, err)
	case v == conflict:
		return s.failed(ctx, "write", at, ErrConflict)
	case v == create || v == rewrite:
		return write(v)
	case v == fix:
		if err := s.fixMeta(ctx, at, dirfd, e, inodeOf(&there.st)); err != nil {
			return s.failed(ctx, "set metadata of", at, err)
		}
	}
	if lead != nil {
		lead.inode = inodeOf(&there.st)
	}
	s.tally(v)
	return nil
}

// fixMeta sets the metadata of a file whose content is right.
func (s *session) fixMeta(ctx context.Context, at place, dirfd int, e *manifest.Entry, judged inode) error {
	if err := s.place.touch(); err != nil {
		return err
	}
	o, st, err := openPath(dirfd, e.Name)
	if err != nil {
		return err
	}
	defer o.close()
	if inodeOf(&st) != judged || st.Nlink > 1 {
		return ErrChanged
	}
	s.at("fix", e.Name)
	return s.apply(ctx, o, stateOf(&st), e, at)
}

// start collects the pieces of a file that is to be written.
func (f *filler) start(ctx context.Context, d *dir, e *manifest.Entry, lead *leader, v verdict) error {
	w := &file{dir: d, entry: *e, lead: lead, verdict: v, left: 1}
	w.sparse, w.single = shape(e)
	offset := int64(0)
	for x, err := range manifest.ReadContent(ctx, f.src.Node, e) {
		if err != nil {
			return f.arrived(ctx, w, err)
		}
		if err := f.spend(x); err != nil {
			return &Error{Op: "write", Path: w.at().path(), Err: err}
		}
		if !x.Hole() {
			w.mu.Lock()
			w.left++
			w.mu.Unlock()
			if err := f.collector.add(ctx, piece{x.ID, w, offset, x.Length}); err != nil {
				return err
			}
		}
		offset += int64(x.Length)
	}
	return f.arrived(ctx, w, nil)
}

// shape tells whether a file is written around holes, and whether all its data
// is one blob. Of a content list neither is known yet: zeros are left out of
// such a file, which does no harm if it has no hole.
func shape(e *manifest.Entry) (sparse, single bool) {
	if !e.Content.List.IsZero() {
		return true, false
	}
	data := 0
	for _, x := range e.Content.Extents {
		if x.Hole() {
			sparse = true
		} else {
			data++
		}
	}
	return sparse, data <= 1
}

// spend counts an extent against the limits.
func (f *filler) spend(x manifest.Extent) error {
	if n := f.extents.Add(1); n > f.opts.Limits.MaxEntries {
		return fmt.Errorf("%w: more than %d pieces of content", ErrLimit, f.opts.Limits.MaxEntries)
	}
	if x.Hole() || f.opts.Limits.MaxBytes == 0 {
		return nil
	}
	if n := f.planned.Add(x.Length); n > f.opts.Limits.MaxBytes {
		return fmt.Errorf("%w: more than %d bytes to write", ErrLimit, f.opts.Limits.MaxBytes)
	}
	return nil
}
