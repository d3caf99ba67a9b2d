package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile"
)

// source is the workspace of one snapshot: where it is, what was known of it
// before, and what is left out.
type source struct {
	opts   SnapshotOptions
	path   string // absolute
	name   string
	rules  rules
	cache  *statcache.Cache // nil: another process has it, or there is no local state
	parent parent
}

// parent is the snapshot that the new one follows. The zero parent is none.
type parent struct {
	id      ID
	session commit.Session // by which it was published; of the base only
	record  commit.Record
	// base says that the parent is the base of the stat cache, and that each of
	// its packs is indexed and neither dead nor damaged: then what the cache says
	// of it need not be confirmed blob by blob. If it was forgotten since and a
	// collection took its packs, step W5 shows that.
	base  bool
	exact int // packs of the record when they were last counted exactly
}

func (p parent) ref() commit.Ref { return commit.Ref{ID: p.id, Session: p.session} }

// unchanged reports whether the tree is the parent's.
func (p parent) unchanged(tree workspace.Result) bool {
	m := p.record.Manifest
	return m != nil && m.Root == tree.Root && m.Links == tree.Links
}

func (r *Repository) openSource(ctx context.Context, opts SnapshotOptions, view commit.View) (*source, error) {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", path)
	}
	src := &source{opts: opts, path: path, name: opts.Source}
	if src.name == "" {
		src.name = path
	}
	if src.rules, err = newRules(opts); err != nil {
		return nil, err
	}
	if src.cache, err = r.openCache(src); err != nil {
		r.opts.Events.warn("open stat cache of", path, err)
	}
	if src.parent, err = r.findParent(ctx, src, view); err != nil {
		return nil, errors.Join(err, src.close())
	}
	return src, nil
}

func (s *source) close() error {
	if s.cache == nil {
		return nil
	}
	return s.cache.Close()
}

// xattrPatterns writes names and prefixes that end in "." as the walk wants
// them, with a "*" after a prefix.
func xattrPatterns(names []string) []string {
	patterns := slices.Clone(names)
	for i, name := range patterns {
		if strings.HasSuffix(name, ".") {
			patterns[i] += "*"
		}
	}
	return patterns
}

// openCache opens the stat cache of a source, one for each root and policy, so
// that snapshots under two policies do not discard each other's.
func (r *Repository) openCache(src *source) (*statcache.Cache, error) {
	if r.state == "" {
		return nil, nil
	}
	policy := fmt.Sprintf("%s onefs=%t tagged=%t xattrs=%q", src.rules.policy.Fingerprint(), src.opts.OneFS, src.opts.CacheDirTag, xattrPatterns(src.opts.Xattrs))
	name := blake3.Sum256([]byte(src.path + "\x00" + policy))
	return statcache.Open(filepath.Join(r.state, "sources", hex.EncodeToString(name[:16])), statcache.Identity{
		Repository: r.ID(), Chunking: fmt.Sprint(r.config.Chunking), Policy: policy, Root: src.path,
	})
}

// findParent prefers the snapshot that the caller names, then the last one that
// this machine took of the source, then the newest one of that name.
func (r *Repository) findParent(ctx context.Context, src *source, view commit.View) (parent, error) {
	base, err := r.baseOf(ctx, src, view)
	if err != nil {
		return parent{}, err
	}
	if !src.opts.Parent.IsZero() && src.opts.Parent != base.id {
		return r.loadParent(ctx, src.opts.Parent)
	}
	if !base.id.IsZero() {
		return base, nil
	}
	id, err := r.latest(ctx, Filter{Source: src.name})
	if errors.Is(err, ErrNotFound) {
		return parent{}, nil
	}
	if err != nil { // a damaged snapshot must not prevent a new one
		r.opts.Events.warn("find parent of", src.path, err)
		return parent{}, nil
	}
	found, err := r.loadParent(ctx, id)
	if errors.Is(err, ErrNotFound) { // it was forgotten since it was listed
		return parent{}, nil
	}
	if err != nil {
		r.opts.Events.warn("find parent of", src.path, err)
		return parent{}, nil
	}
	return found, nil
}

func (r *Repository) loadParent(ctx context.Context, id ID) (parent, error) {
	ref, record, err := r.findRef(ctx, id)
	return parent{id: id, session: ref.Session, record: record}, err
}

// baseOf returns the base of the source's stat cache.
func (r *Repository) baseOf(ctx context.Context, src *source, view commit.View) (parent, error) {
	if src.cache == nil {
		return parent{}, nil
	}
	base, ok := src.cache.Base()
	if !ok {
		return parent{}, nil
	}
	note, err := decodeNote(base.Opaque)
	if err != nil {
		r.opts.Events.warn("read stat cache of", src.path, err)
		return parent{}, nil
	}
	p := parent{id: base.Snapshot, session: note.session, record: note.record, exact: note.exact}
	if p.base = !slices.ContainsFunc(note.record.Packs, view.Avoid().Has); p.base {
		p.base, err = r.knowsAll(ctx, note.record.Packs)
	}
	return p, err
}

// walkOptions say how to read the source.
func (r *Repository) walkOptions(src *source, newWriter func() workspace.Writer, progress *workspace.Progress) workspace.Options {
	reuse := workspace.ReuseConfirmed
	switch {
	case src.opts.Rescan:
		reuse = workspace.ReuseNothing
	case src.parent.base:
		reuse = workspace.ReuseTrusted
	}
	c := r.config.Chunking
	return workspace.Options{
		Root: src.path, Workers: src.opts.Workers, NewWriter: newWriter,
		Chunk:         chunk.Params{Polynomial: uint64(c.Polynomial), Min: int(c.Min), Max: int(c.Max), AvgBits: int(c.AverageBits)},
		Rules:         src.rules,
		OneFileSystem: src.opts.OneFS, SkipTaggedCaches: src.opts.CacheDirTag, Xattrs: xattrPatterns(src.opts.Xattrs),
		Cache: src.cache, Reuse: reuse, GetNode: r.fetch.Node, Sync: src.opts.Sync,
		Progress: progress, // its clock stays the machine's: files' times are compared with it
	}
}

// manifest describes the snapshot of a tree that was read.
func (r *Repository) manifest(src *source, tree workspace.Result) (*manifest.Manifest, error) {
	labels, err := commit.SortedLabels(src.opts.Labels)
	if err != nil {
		return nil, err
	}
	m := &manifest.Manifest{
		Root: tree.Root, Links: tree.Links, Parent: src.parent.id, Source: src.name, Labels: labels,
		Consistency: src.opts.Consistency, Counts: tree.Counts, Omissions: tree.Omissions, Tool: r.opts.Tool,
	}
	if m.Consistency == 0 {
		m.Consistency = manifest.Live
	}
	if tree.Torn() {
		m.Consistency = manifest.Torn
	}
	var before manifest.Time
	if src.parent.record.Manifest != nil {
		before = src.parent.record.Manifest.Time
	}
	m.Time = r.now(before)
	return m, m.Check()
}

// remember makes the published snapshot the base of the source's stat cache.
func (s *source) remember(published commit.Published, tree workspace.Result, exact int) error {
	if s.cache == nil {
		return nil
	}
	n := note{session: published.Session, exact: exact, record: published.Record}
	return s.cache.Commit(statcache.Base{Snapshot: published.ID, Dir: tree.Dir, Opaque: n.encode()})
}

// packs returns the packs of a snapshot of the source: those that the session
// used, and the parent's if its content was reused unconfirmed.
func (s *source) packs(used []packfile.Name) []packfile.Name {
	if s.parent.base && !s.opts.Rescan {
		used = append(used, s.parent.record.Packs...)
	}
	slices.SortFunc(used, packfile.Name.Compare)
	return slices.Compact(used)
}
