package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"golang.org/x/sys/unix"
)

func init() { children["killed"] = killedChild }

// order is what a child that is killed has to do.
type order struct {
	Tree   string // to capture
	Target string
	Step   int64 // before which the child is killed
}

// killedChild restores a tree and kills itself before a step, as if the power
// of the process had gone.
func killedChild() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv("ORDER")), &o); err != nil {
		return 2
	}
	src := newMemSource()
	snap := capture(&childT{}, src, o.Tree)
	steps := atomic.Int64{}
	_, err := Run(context.Background(), src, snap, Options{Target: o.Target, Delete: true, hook: func(string, string) {
		if steps.Add(1) == o.Step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childT reports failures of a child.
type childT struct{ testing.TB }

func (*childT) Helper()           {}
func (*childT) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// TestKilledAtEveryStep kills a restore before each of its steps in turn. What
// it leaves never looks complete, and the next restore completes it.
func TestKilledAtEveryStep(t *testing.T) {
	for _, target := range []string{"new", "there"} {
		t.Run(target, func(t *testing.T) {
			src, base := newMemSource(), tempDir(t)
			sampleTree(t, base+"/src")
			must(t, os.WriteFile(base+"/src/big", bytes.Repeat([]byte("0123456789abcdef"), 50_000), 0o644))
			snap := capture(t, src, base+"/src")
			for step := int64(1); ; step++ {
				dir := fmt.Sprintf("%s/%d", base, step)
				must(t, os.Mkdir(dir, 0o755))
				if target == "there" {
					must(t, os.MkdirAll(dir+"/dst/a/extra/deep", 0o755))
					must(t, os.WriteFile(dir+"/dst/a/script.sh", []byte("old"), 0o600))
					must(t, os.Symlink("..", dir+"/dst/locked"))
				}
				o, err := json.Marshal(order{base + "/src", dir + "/dst", step})
				must(t, err)
				cmd := child(t, "killed", "ORDER="+string(o))
				out, err := cmd.CombinedOutput()
				if err == nil {
					if step < 20 {
						t.Fatalf("only %d steps", step)
					}
					wantEqual(t, src, dir+"/dst", snap)
					return
				}
				if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
					t.Fatalf("step %d: %v\n%s", step, err, out)
				}
				wantIncomplete(t, src, dir, snap, target == "new")
				mustRun(t, src, snap, Options{Target: dir + "/dst", Delete: true})
				wantEqual(t, src, dir+"/dst", snap)
				if names, _ := filepath.Glob(dir + "/.*"); len(names) > 0 {
					t.Fatalf("step %d: left over: %q", step, names)
				}
			}
		})
	}
}

// wantIncomplete fails the test if a target looks complete and is not.
func wantIncomplete(t *testing.T, src *memSource, dir string, snap Snapshot, isNew bool) {
	t.Helper()
	_, err := os.Lstat(dir + "/dst")
	if isNew {
		if err == nil {
			t.Fatal("a restore that was killed left a target")
		}
		return
	}
	must(t, err)
	if _, err := os.Lstat(dir + "/dst/" + markerName); err == nil {
		return
	}
	// Before the first change, or after the last one but for the root's own
	// metadata.
	left := 0
	for c, err := range Plan(t.Context(), src, snap, Options{Target: dir + "/dst", Delete: true}) {
		must(t, err)
		if c.Path != "" {
			left++
		}
	}
	if old, err := os.ReadFile(dir + "/dst/a/script.sh"); left > 0 && (err != nil || string(old) != "old") {
		t.Fatalf("%d changes are left, but nothing says so", left)
	}
}

// TestLeftoversWithoutDelete: the temporary files of a run that was killed go
// away, everything else that is extra stays.
func TestLeftoversWithoutDelete(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	must(t, os.MkdirAll(dir+"/dst/a", 0o755))
	leftover := tempName()
	must(t, os.WriteFile(dir+"/dst/a/"+leftover, nil, 0o600))
	must(t, os.WriteFile(dir+"/dst/a/mine", nil, 0o600))
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	if _, err := os.Lstat(dir + "/dst/a/" + leftover); err != nil {
		t.Errorf("without a marker it may be anybody's: %v", err)
	}
	must(t, os.WriteFile(dir+"/dst/"+markerName, nil, 0o600))
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	for name, want := range map[string]bool{"a/" + leftover: false, markerName: false, "a/mine": true} {
		if _, err := os.Lstat(dir + "/dst/" + name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errStore = errors.New("the store does not answer")

// TestSourceFails lets the source fail at its first call, then at its second,
// and so on, until it makes fewer calls. A failing store ends the run, and the
// next one completes it; a blob that is lost costs what it is part of.
func TestSourceFails(t *testing.T) {
	lost := &fetch.Error{Err: fetch.ErrNotIndexed}
	for name, cause := range map[string]error{"store": errStore, "lost": lost} {
		for _, target := range []string{"new", "there"} {
			t.Run(name+" "+target, func(t *testing.T) {
				src, base := newMemSource(), tempDir(t)
				sampleTree(t, base+"/src")
				must(t, os.WriteFile(base+"/src/big", bytes.Repeat([]byte("0123456789abcdef"), 50_000), 0o644))
				snap := capture(t, src, base+"/src")
				for n := int64(1); ; n++ {
					dir := fmt.Sprintf("%s/%d", base, n)
					must(t, os.MkdirAll(dir, 0o755))
					if target == "there" {
						must(t, os.MkdirAll(dir+"/dst/a/mine", 0o755))
					}
					calls := atomic.Int64{}
					src.fail = func(blob.Kind, blob.ID) error {
						if calls.Add(1) == n {
							return cause
						}
						return nil
					}
					_, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst"})
					src.fail = nil
					if calls.Load() < n {
						must(t, err)
						break
					}
					if err == nil {
						t.Fatalf("call %d failed, but nothing was said", n)
					}
					if !errors.Is(err, cause) {
						t.Fatalf("call %d: %v does not wrap the cause", n, err)
					}
					if _, lerr := os.Lstat(dir + "/dst"); lerr == nil && target == "new" && !errors.Is(err, ErrPartial) {
						t.Fatalf("call %d: %v, but the target is there", n, err)
					}
					mustRun(t, src, snap, Options{Target: dir + "/dst"})
					if target == "there" {
						must(t, os.Remove(dir+"/dst/a/mine"))
						mustRun(t, src, snap, Options{Target: dir + "/dst"})
					}
					wantEqual(t, src, dir+"/dst", snap)
				}
			})
		}
	}
}

// TestCancel ends a restore at each of its steps.
func TestCancel(t *testing.T) {
	src, base := newMemSource(), tempDir(t)
	sampleTree(t, base+"/src")
	snap := capture(t, src, base+"/src")
	for step := int64(1); ; step++ {
		target := fmt.Sprintf("%s/%d", base, step)
		ctx, cancel := context.WithCancel(t.Context())
		steps := atomic.Int64{}
		_, err := Run(ctx, src, snap, Options{Target: target, hook: func(string, string) {
			if steps.Add(1) == step {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			wantEqual(t, src, target, snap)
			if steps.Load() < step {
				return
			}
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("step %d: %v", step, err)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Fatalf("step %d: the target is there", step)
		}
	}
}

// TestLostBlobs: what is damaged is named, the rest is restored, and what stood
// in place of the damaged stays.
func TestLostBlobs(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	big := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	must(t, os.WriteFile(dir+"/src/big", big, 0o644))
	snap := capture(t, src, dir+"/src")
	src.drop(blob.Data, src.Name(blob.Data, big[2*testChunk:3*testChunk]))
	src.drop(blob.Data, src.Name(blob.Data, []byte("#!/bin/sh\n")))
	src.drop(blob.Tree, dirNode(t, src, snap, "a/deep/er"))
	must(t, os.MkdirAll(dir+"/there/a/deep/er/mine", 0o755))
	must(t, os.WriteFile(dir+"/there/big", []byte("old"), 0o600))
	for _, target := range []string{"/new", "/there"} {
		r, err := Run(t.Context(), src, snap, Options{Target: dir + target, Delete: true})
		if !errors.Is(err, ErrPartial) || !errors.Is(err, fetch.ErrNotIndexed) {
			t.Fatalf("got %v", err)
		}
		var failed []string
		for _, f := range r.Failed {
			failed = append(failed, f.Path)
		}
		// a/deep/link comes first among the names of the script.
		want := map[string]bool{"a/deep/er": true, "a/deep/link": true, "a/script.sh": true, "big": true}
		if len(failed) != len(want) || r.FailedCount != uint64(len(want)) {
			t.Errorf("failed %q", failed)
		}
		for _, path := range failed {
			if !want[path] {
				t.Errorf("failed %q", path)
			}
		}
		if b, err := os.ReadFile(dir + target + "/locked/file"); isRoot() && (err != nil || string(b) != "read-only") {
			t.Errorf("%q, %v", b, err)
		}
		if tmp, _ := filepath.Glob(dir + target + "/*/" + manifest.RestoreTemp + "*"); len(tmp) > 0 {
			t.Errorf("left over: %q", tmp)
		}
	}
	if b, err := os.ReadFile(dir + "/there/big"); err != nil || string(b) != "old" {
		t.Errorf("the old file is gone: %q, %v", b, err)
	}
	if _, err := os.Lstat(dir + "/there/a/deep/er/mine"); err != nil {
		t.Errorf("deleted from a directory whose entries are not known: %v", err)
	}
	if _, err := os.Lstat(dir + "/new/big"); err == nil {
		t.Error("a damaged file is there")
	}
}

// TestLostLeader: files are restored, and linked to each other, if the directory with
// the first of their names is lost.
func TestLostLeader(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	must(t, os.Link(dir+"/src/a/script.sh", dir+"/src/third"))
	must(t, os.Link(dir+"/src/fifo", dir+"/src/a/deep/pipe")) // is no file
	must(t, os.Link(dir+"/src/a/empty", dir+"/src/a/deep/nothing"))
	setTimes(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	src.drop(blob.Tree, dirNode(t, src, snap, "a/deep"))
	must(t, os.MkdirAll(dir+"/there/a", 0o755))
	must(t, os.WriteFile(dir+"/there/a/script.sh", []byte("old"), 0o600))
	must(t, os.WriteFile(dir+"/there/third", []byte("old"), 0o600))
	for _, target := range []string{"/new", "/there", "/there"} {
		r, err := Run(t.Context(), src, snap, Options{Target: dir + target, Delete: true})
		if !errors.Is(err, ErrPartial) || len(r.Failed) != 1 || r.Failed[0].Path != "a/deep" {
			t.Fatalf("%s: %v", target, err)
		}
		for _, path := range []string{"a/script.sh", "third", "fifo", "a/empty"} {
			want := lookup(t, src, snap, path)
			var st, first unix.Stat_t
			must(t, unix.Lstat(dir+target+"/"+path, &st))
			if st.Mode&0o7777 != want.Mode || st.Size != int64(want.Size) || st.Mtim.Sec != want.MTime.Sec {
				t.Errorf("%s%s has mode %o, %d bytes, time %v", target, path, st.Mode, st.Size, st.Mtim)
			}
			must(t, unix.Lstat(dir+target+"/a/script.sh", &first))
			if path == "third" && (st.Ino != first.Ino || st.Nlink != 2) {
				t.Errorf("%s: not linked", target)
			}
		}
		if b, err := os.ReadFile(dir + target + "/third"); err != nil || string(b) != "#!/bin/sh\n" {
			t.Errorf("%s: %q, %v", target, b, err)
		}
	}
}

// dirNode finds the node of a directory.
func dirNode(t *testing.T, src *memSource, snap Snapshot, path string) blob.ID {
	t.Helper()
	e := lookup(t, src, snap, path)
	return e.Node
}

func TestBusy(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	for _, target := range []string{dir + "/new", dir + "/there"} {
		if strings.HasSuffix(target, "there") {
			must(t, os.Mkdir(target, 0o755))
		}
		var second error
		once := atomic.Bool{}
		mustRun(t, src, snap, Options{Target: target, hook: func(string, string) {
			if once.CompareAndSwap(false, true) {
				_, second = Run(t.Context(), src, snap, Options{Target: target})
			}
		}})
		if !errors.Is(second, ErrBusy) {
			t.Errorf("second restore to %s: %v", target, second)
		}
	}
}
