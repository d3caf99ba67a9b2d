package restore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

// planned lists the changes of a plan.
func planned(t testing.TB, src Source, snap Snapshot, opts Options) []string {
	t.Helper()
	var out []string
	for c, err := range Plan(t.Context(), src, snap, opts) {
		must(t, err)
		out = append(out, fmt.Sprintf("%v %v %q %d", c.Action, c.Kind, c.Path, c.Bytes))
	}
	slices.Sort(out)
	return out
}

func TestPlan(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	must(t, os.MkdirAll(dir+"/src/d/sub", 0o755))
	for name, content := range map[string]string{"d/same": "same", "d/edit": "12345", "d/mode": "1", "lead": "linked", "new": "new", "d/kind": "file"} {
		must(t, os.WriteFile(dir+"/src/"+name, []byte(content), 0o644))
	}
	must(t, os.Link(dir+"/src/lead", dir+"/src/d/a link"))
	must(t, os.Link(dir+"/src/lead", dir+"/src/linked"))
	setTimes(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	opts := Options{Target: dir + "/dst", Delete: true}
	all := planned(t, src, snap, opts)
	want := []string{`create dir "" 0`, `create dir "d" 0`, `create dir "d/sub" 0`, `create file "d/a link" 6`, `create file "d/edit" 5`,
		`create file "d/kind" 4`, `create file "d/mode" 1`, `create file "d/same" 4`, `create file "new" 3`, `meta file "lead" 0`, `meta file "linked" 0`}
	want = append(want[:9], `link file "lead" 0`, `link file "linked" 0`)
	if !slices.Equal(all, want) {
		t.Errorf("for a new target: got %q, want %q", all, want)
	}
	if _, err := os.Lstat(dir + "/dst"); err == nil {
		t.Fatal("a plan made the target")
	}
	mustRun(t, src, snap, opts)
	must(t, os.WriteFile(dir+"/dst/d/edit", []byte("other"), 0o644))
	must(t, os.Chmod(dir+"/dst/d/mode", 0o600))
	must(t, os.Remove(dir+"/dst/new"))
	must(t, os.Remove(dir+"/dst/linked"))
	must(t, os.RemoveAll(dir+"/dst/d/kind"))
	must(t, os.MkdirAll(dir+"/dst/d/kind/full", 0o755))
	must(t, os.MkdirAll(dir+"/dst/extra/x", 0o755))
	must(t, os.WriteFile(dir+"/dst/extra/x/y", []byte("123"), 0o644))
	before := stamps(t, dir+"/dst")
	want = []string{`create file "d/kind" 4`, `create file "new" 3`, `delete dir "d/kind" 0`, `delete dir "extra" 3`, `link file "linked" 0`, `meta dir "" 0`, `meta dir "d" 0`, `meta file "d/mode" 0`, `update file "d/edit" 5`}
	if got := planned(t, src, snap, opts); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	opts.Delete = false
	want = []string{`conflict kind 0 "d/kind" 0`, `create file "new" 3`, `link file "linked" 0`, `meta dir "" 0`, `meta dir "d" 0`, `meta file "d/mode" 0`, `update file "d/edit" 5`}
	if got := planned(t, src, snap, opts); !slices.Equal(got, want) {
		t.Errorf("without delete: got %q, want %q", got, want)
	}
	wantUntouched(t, dir+"/dst", before)
}

// TestPlanStops: a caller may want no more, and what is lost is said.
func TestPlanStops(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	n := 0
	for range Plan(t.Context(), src, snap, Options{Target: dir + "/dst"}) {
		if n++; n == 3 {
			break
		}
	}
	src.drop(blob.Tree, dirNode(t, src, snap, "a/deep"))
	conflicts := 0
	for c, err := range Plan(t.Context(), src, snap, Options{Target: dir + "/dst"}) {
		must(t, err)
		if c.Action == Conflict {
			conflicts++
			if c.Path != "a/deep" || c.Reason == "" {
				t.Errorf("%+v", c)
			}
		}
	}
	if n != 3 || conflicts != 1 {
		t.Errorf("%d changes, %d conflicts", n, conflicts)
	}
	src.fail = func(blob.Kind, blob.ID) error { return errStore }
	for _, err := range Plan(t.Context(), src, snap, Options{Target: dir + "/dst"}) {
		if !errors.Is(err, errStore) {
			t.Errorf("got %v", err)
		}
	}
}
