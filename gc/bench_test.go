package gc_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// The numbers in the documentation come from
//
//	TMPDIR=/dev/shm go test -run '^$' -bench Collection -blobs 10000000 ./gc
var benchBlobs = flag.Int("blobs", 100_000, "data blobs in the repository of the benchmark")

// The repository of the benchmark is a tree of directories, each with branch others,
// the last with leafFiles files of one blob each. Its nodes are made when they are
// read, and its packs are only listed, so that nothing is measured but the collector.
const (
	leafFiles    = 100
	branch       = 100
	blobsPerPack = 1000
	firstTree    = 1 << 40 // numbers of tree blobs
)

// numbered is a blob id that tells its number, and is spread like a hash.
func numbered(n uint64) blob.ID {
	var id blob.ID
	binary.BigEndian.PutUint64(id[24:], n)
	sum := blake3.Sum256(id[24:])
	copy(id[:24], sum[:])
	return id
}

func number(id blob.ID) uint64 { return binary.BigEndian.Uint64(id[24:]) }

// forest makes tree nodes: leaf n has the files from n*leafFiles on; the node n of
// level l has branch nodes of the level below.
type forest struct{ leaves uint64 }

func treeID(level, n uint64) blob.ID { return numbered(firstTree + level<<32 + n) }

func (f forest) Blobs(ctx context.Context, _ blob.Kind, ids []blob.ID, deliver func(int, []byte, error) error) error {
	for i, id := range ids {
		if err := deliver(i, f.node(number(id)-firstTree), ctx.Err()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f forest) node(which uint64) (node []byte) {
	level, n := which>>32, which&(1<<32-1)
	if level == rootLevel {
		return manifest.EncodeRoot(manifest.Entry{Kind: manifest.Dir, Mode: 0o755, Node: treeID(f.height(), n)})
	}
	w := manifest.NewDirWriter(func(b []byte) (blob.ID, error) {
		node = slices.Clone(b)
		return blob.ID{1}, nil
	})
	for i := range uint64(branch) {
		e := manifest.Entry{Name: fmt.Sprintf("%03d", i), Kind: manifest.Dir, Mode: 0o755}
		if level == 0 {
			e.Kind, e.Mode, e.Size = manifest.File, 0o644, 1000
			e.Content.Extents = []manifest.Extent{{Length: 1000, ID: numbered(1 + n*leafFiles + i)}}
		} else if child := n*branch + i; child < f.count(level-1) {
			e.Node = treeID(level-1, child)
		} else {
			break
		}
		if err := w.Add(&e); err != nil {
			panic(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		panic(err)
	}
	return node
}

const rootLevel = 9

// count is the number of nodes of a level.
func (f forest) count(level uint64) uint64 {
	n := f.leaves
	for range level {
		n = (n + branch - 1) / branch
	}
	return n
}

// height is the level of the one node at the top.
func (f forest) height() uint64 {
	level := uint64(0)
	for f.count(level) > 1 {
		level++
	}
	return level
}

// listedPacks is a store whose packs are only listed.
type listedPacks struct {
	objectstore.Store
	mu    sync.Mutex
	packs map[string]int64
}

func (l *listedPacks) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if prefix != ingest.PackPrefix {
		return l.Store.List(ctx, prefix, after)
	}
	return func(yield func(objectstore.Info, error) bool) {
		for key, size := range l.packs {
			if !yield(objectstore.Info{Key: key, Size: size}, nil) {
				return
			}
		}
	}
}

func (l *listedPacks) Delete(ctx context.Context, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.packs, key)
	return l.Store.Delete(ctx, key)
}

// fillRepository indexes the blobs of a forest, and publishes two snapshots of it:
// of the whole, and of a part of half the size.
func fillRepository(b *testing.B, blobs int) (*gc.Repository, forest) {
	store, err := file.Create(b.TempDir())
	check(b, err)
	b.Cleanup(func() { check(b, store.Close()) })
	listed := &listedPacks{Store: store, packs: map[string]int64{}}
	repo := commit.Repo{Store: listed, Sealer: seal.New(seal.Key{Secret: [32]byte{1}}, seal.Fastest), Namer: blob.NewNamer([32]byte{2})}
	f := forest{leaves: uint64(blobs / leafFiles)}
	var packs []packfile.Pack
	pack := packfile.Pack{}
	flush := func(force bool) {
		if n := len(pack.Frames); n > 0 {
			pack.Name = packfile.NameOf(fmt.Append(nil, len(listed.packs)))
			pack.Size += 100
			listed.packs[ingest.PackKey(pack.Name)] = pack.Size
			packs = append(packs, pack)
			pack = packfile.Pack{}
		}
		if force || len(packs) >= 400 {
			_, err := index.WriteSegments(b.Context(), repo.Store, repo.Sealer, packs)
			check(b, err)
			packs = packs[:0]
		}
	}
	add := func(kind blob.Kind, id blob.ID) {
		if n := len(pack.Frames); n == 0 || pack.Frames[n-1].Kind != kind {
			pack.Frames = append(pack.Frames, packfile.Frame{Kind: kind, Offset: uint32(pack.Size)})
		}
		frame := &pack.Frames[len(pack.Frames)-1]
		frame.Blobs = append(frame.Blobs, packfile.Blob{ID: id, Length: 1000})
		frame.Length += 500
		pack.Size += 500
		if len(frame.Blobs) == blobsPerPack {
			flush(false)
		}
	}
	for n := range uint64(blobs) {
		add(blob.Data, numbered(1+n))
	}
	flush(false)
	add(blob.Tree, treeID(rootLevel, 0))
	for level := uint64(0); level <= f.height(); level++ {
		for n := range f.count(level) {
			add(blob.Tree, treeID(level, n))
		}
	}
	flush(true)
	for i, root := range []blob.ID{treeID(rootLevel, 0), treeID(f.height()-1, 0)} {
		m := &manifest.Manifest{Root: root, Time: manifest.Time{Sec: int64(i + 1)}, Source: "bench", Consistency: manifest.Live, Tool: "bench"}
		_, err := commit.Publish(b.Context(), repo, commit.NewSession(), commit.Record{Manifest: m}, commit.View{}, nil)
		check(b, err)
	}
	db, err := index.Open(b.TempDir(), "bench", index.Options{})
	check(b, err)
	b.Cleanup(func() { check(b, db.Close()) })
	return &gc.Repository{Repo: repo, Index: db, Trees: f, TempDir: b.TempDir()}, f
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCollection marks all blobs, then forgets the larger snapshot and collects.
func BenchmarkCollection(b *testing.B) {
	for b.Loop() {
		repo, _ := fillRepository(b, *benchBlobs)
		debug.FreeOSMemory()
		check(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // VmHWM starts again
		before := memory(b, "VmRSS")
		collect(b, repo, "everything is needed")
		for ref, err := range commit.List(b.Context(), repo.Repo, "") {
			check(b, err)
			if record, err := commit.Load(b.Context(), repo.Repo, ref); err != nil || record.Manifest.Time.Sec == 1 {
				check(b, err)
				check(b, commit.Forget(b.Context(), repo.Repo, ref))
			}
		}
		collect(b, repo, "most is not")
		b.Logf("RSS %.0f MiB before, at most %.0f MiB", before, memory(b, "VmHWM"))
		b.ReportMetric(memory(b, "VmHWM"), "peak-MiB")
	}
}

func collect(b *testing.B, repo *gc.Repository, what string) {
	b.Helper()
	start := time.Now()
	plan, err := gc.Survey(b.Context(), repo, gc.Options{UndoWindow: -1, MaxUnused: 1, PackSize: 1})
	check(b, err)
	surveyed := time.Since(start)
	result, err := plan.Execute(b.Context())
	check(b, err)
	check(b, plan.Close())
	b.Logf("%s: planned in %.1f s, done in %.1f s, %d packs of %d deleted", what, surveyed.Seconds(), time.Since(start).Seconds(), result.Deleted, plan.Packs)
}

// memory reads a line of /proc/self/status, in MiB.
func memory(b *testing.B, field string) float64 {
	f, err := os.Open("/proc/self/status")
	check(b, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), field+":"); ok {
			var kib float64
			_, err := fmt.Sscan(rest, &kib)
			check(b, err)
			return kib / 1024
		}
	}
	b.Fatalf("no %s in /proc/self/status", field)
	return 0
}
