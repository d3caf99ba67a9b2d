package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Each entry counts once, also one that leads in place of a lost one.
func TestLostLeaderCountsOnce(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	must(t, os.Link(dir+"/src/fifo", dir+"/src/a/deep/pipe"))
	must(t, os.Link(dir+"/src/fifo", dir+"/src/second pipe"))
	setTimes(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	src.drop(blob.Tree, dirNode(t, src, snap, "a/deep"))
	r, err := Run(t.Context(), src, snap, Options{Target: dir + "/new"})
	if !errors.Is(err, ErrPartial) {
		t.Fatal(err)
	}
	others := uint64(0)
	must(t, filepath.WalkDir(dir+"/new", func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDevice) != 0 {
			others++
		}
		return err
	}))
	if r.Others != others {
		t.Errorf("%d others counted, %d are there", r.Others, others)
	}
}

// A plan says what a restore without the first of some hard links does.
func TestPlanWithALostLeader(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	must(t, os.MkdirAll(dir+"/src/a", 0o755))
	must(t, os.WriteFile(dir+"/src/a/lead", []byte("linked"), 0o644))
	must(t, os.Link(dir+"/src/a/lead", dir+"/src/second"))
	must(t, os.Link(dir+"/src/a/lead", dir+"/src/third"))
	setTimes(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	src.drop(blob.Tree, dirNode(t, src, snap, "a"))
	opts := Options{Target: dir + "/new"}
	plan := strings.Join(planned(t, src, snap, opts), "\n")
	if !strings.Contains(plan, `create file "second" 6`) || strings.Contains(plan, `link file "second"`) {
		t.Errorf("for a new target:\n%s", plan)
	}
	if _, err := Run(t.Context(), src, snap, opts); !errors.Is(err, ErrPartial) {
		t.Fatal(err)
	}
	plan = strings.Join(planned(t, src, snap, opts), "\n")
	if strings.Contains(plan, "link file") {
		t.Errorf("all is there, and the plan is\n%s", plan)
	}
}

// batched counts the calls for data.
type batched struct {
	*memSource
	calls atomic.Int64
}

func (b *batched) Blobs(ctx context.Context, kind blob.Kind, ids []blob.ID, deliver func(int, []byte, error) error) error {
	if kind == blob.Data {
		b.calls.Add(1)
	}
	return b.memSource.Blobs(ctx, kind, ids, deliver)
}

func TestManyLostLeadersAreReadTogether(t *testing.T) {
	src, dir := &batched{memSource: newMemSource()}, tempDir(t)
	must(t, os.MkdirAll(dir+"/src/daily.0", 0o755))
	must(t, os.MkdirAll(dir+"/src/daily.1", 0o755))
	const n = 500
	for i := range n {
		name := fmt.Sprintf("/f%03d", i)
		must(t, os.WriteFile(dir+"/src/daily.0"+name, fmt.Appendf(nil, "content %d", i), 0o644))
		must(t, os.Link(dir+"/src/daily.0"+name, dir+"/src/daily.1"+name))
	}
	must(t, os.WriteFile(dir+"/src/daily.1/own", []byte("so that the nodes differ"), 0o644))
	setTimes(t, dir+"/src")
	snap := capture(t, src.memSource, dir+"/src")
	if _, err := Run(t.Context(), src, snap, Options{Target: dir + "/whole"}); err != nil {
		t.Fatal(err)
	}
	whole, nodes := src.calls.Swap(0), src.nodes.Swap(0)
	src.drop(blob.Tree, dirNode(t, src.memSource, snap, "daily.0"))
	src.nodes.Store(0)
	if _, err := Run(t.Context(), src, snap, Options{Target: dir + "/new"}); !errors.Is(err, ErrPartial) {
		t.Fatal(err)
	}
	t.Logf("%d calls for data and %d nodes, %d and %d without the first directory", whole, nodes, src.calls.Load(), src.nodes.Load())
	if src.calls.Load() > 10 {
		t.Errorf("%d calls for the data of %d files", src.calls.Load(), n)
	}
}
