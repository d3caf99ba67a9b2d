package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func keep(r retention.Rules) *retention.Policy {
	return &retention.Policy{Sections: []retention.Section{{Rules: r}}}
}

// visible lists the published snapshots, oldest first.
func (r *testRepo) visible() []engine.ID {
	r.t.Helper()
	infos, err := r.List(r.t.Context(), engine.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []engine.ID
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

func (r *testRepo) planForget(opts engine.ForgetOptions) *engine.ForgetPlan {
	r.t.Helper()
	plan, err := r.PlanForget(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return plan
}

// carryOut plans and forgets.
func (r *testRepo) carryOut(opts engine.ForgetOptions) *engine.ForgetResult {
	r.t.Helper()
	result, err := r.Forget(r.t.Context(), r.planForget(opts))
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *testRepo) label(id engine.ID, labels map[string]string) {
	r.t.Helper()
	if _, err := r.Label(r.t.Context(), id, labels, nil); err != nil {
		r.t.Fatal(err)
	}
}

func sortedIDs(ids []engine.ID) []engine.ID {
	return slices.SortedFunc(slices.Values(ids), blob.ID.Compare)
}

func TestForgetNamed(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b, c := h.save(), h.save(), h.save()
	plan := h.r.planForget(engine.ForgetOptions{Snapshots: []engine.ID{b, a}})
	if got := h.r.visible(); len(got) != 3 {
		t.Errorf("a plan changed what is visible: %v", got)
	}
	if goes := plan.Goes(); !slices.Equal(goes, []engine.ID{a, b}) {
		t.Errorf("plan %v", goes)
	}
	result, err := h.r.Forget(t.Context(), plan)
	if err != nil || !slices.Equal(result.Forgotten, []engine.ID{a, b}) || len(result.Pinned) > 0 {
		t.Errorf("result %+v, %v", result, err)
	}
	if got := h.r.visible(); !slices.Equal(got, []engine.ID{c}) {
		t.Errorf("visible %v", got)
	}
	h.hold(c)
	if again, err := h.r.Forget(t.Context(), plan); err != nil || !slices.Equal(again.Forgotten, []engine.ID{a, b}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestForgetByPolicyAndFilter(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	take := func(source, stage string) engine.ID {
		t.Helper()
		result, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, Source: source, Labels: map[string]string{"stage": stage}})
		if err != nil {
			t.Fatal(err)
		}
		return result.Snapshot
	}
	a1, a2, b1, a3, b2 := take("/a", "ci"), take("/a", "ci"), take("/b", "ci"), take("/a", "prod"), take("/b", "ci")
	for name, tc := range map[string]struct {
		opts engine.ForgetOptions
		goes []engine.ID
		of   int // snapshots in the plan
	}{
		"by source":            {engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})}, []engine.ID{a1, a2, b1}, 5},
		"one source":           {engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1}), Filter: engine.Filter{Source: "/a"}}, []engine.ID{a1, a2}, 3},
		"one label":            {engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1}), Filter: engine.Filter{Labels: map[string]string{"stage": "ci"}}}, []engine.ID{a1, b1}, 4},
		"together":             {engine.ForgetOptions{Policy: &retention.Policy{Sections: []retention.Section{{GroupBy: retention.Together(), Rules: retention.Rules{Last: 1}}}}}, []engine.ID{a1, a2, b1, a3}, 5},
		"all that pass":        {engine.ForgetOptions{Filter: engine.Filter{Source: "/b"}}, []engine.ID{b1, b2}, 2},
		"all of a label there": {engine.ForgetOptions{Filter: engine.Filter{Labels: map[string]string{"stage": "prod"}}}, []engine.ID{a3}, 1},
	} {
		plan := r.planForget(tc.opts)
		if goes := plan.Goes(); !slices.Equal(sortedIDs(goes), sortedIDs(tc.goes)) || plan.Stays()+len(goes) != tc.of {
			t.Errorf("%s: %v go, %d stay; want %v of %d", name, goes, plan.Stays(), tc.goes, tc.of)
		}
	}
	r.carryOut(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
	if got := r.visible(); !slices.Equal(got, []engine.ID{a3, b2}) {
		t.Errorf("visible %v", got)
	}
}

func TestForgetIsRefused(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	h.r.label(a, map[string]string{"pin": "yes"})
	for name, tc := range map[string]struct {
		opts   engine.ForgetOptions
		want   error
		forced bool // it can be forced
	}{
		"pinned":             {engine.ForgetOptions{Snapshots: []engine.ID{a}}, retention.ErrPinned, true},
		"everything":         {engine.ForgetOptions{Snapshots: []engine.ID{a, b}}, retention.ErrRemovesAll, true},
		"no such label":      {engine.ForgetOptions{Filter: engine.Filter{Labels: map[string]string{"x": ""}}}, retention.ErrMatchesNothing, true},
		"no such source":     {engine.ForgetOptions{Filter: engine.Filter{Source: "/x"}, Policy: keep(retention.Rules{Last: 1})}, retention.ErrMatchesNothing, true},
		"a misspelt label":   {engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1, Labels: []retention.Label{{Key: "x"}}})}, retention.ErrMatchesNothing, true},
		"nothing kept":       {engine.ForgetOptions{Policy: keep(retention.Rules{})}, retention.ErrKeepsNothing, true},
		"negative":           {engine.ForgetOptions{Policy: keep(retention.Rules{Last: -1}), Force: true}, retention.ErrInvalid, false},
		"empty":              {engine.ForgetOptions{Policy: &retention.Policy{}, Force: true}, retention.ErrInvalid, false},
		"no such snapshot":   {engine.ForgetOptions{Snapshots: []engine.ID{{1}}, Force: true}, engine.ErrNotFound, false},
		"nothing is said":    {engine.ForgetOptions{Force: true}, nil, false},
		"both":               {engine.ForgetOptions{Snapshots: []engine.ID{b}, Policy: keep(retention.Rules{Last: 1}), Force: true}, nil, false},
		"a filter of no use": {engine.ForgetOptions{Filter: engine.Filter{Labels: map[string]string{}}, Force: true}, nil, false},
	} {
		plan, err := h.r.PlanForget(t.Context(), tc.opts)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		}
		if !tc.forced {
			continue
		}
		if _, err := h.r.Forget(t.Context(), plan); !errors.Is(err, tc.want) {
			t.Errorf("%s: a refused plan was executed: %v", name, err)
		}
		tc.opts.Force = true
		if _, err := h.r.PlanForget(t.Context(), tc.opts); err != nil {
			t.Errorf("%s: forced: %v", name, err)
		}
	}
	if got := h.r.visible(); len(got) != 2 {
		t.Fatalf("visible %v", got)
	}
	if done := h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a, b}, Force: true}); len(done.Forgotten) != 2 {
		t.Errorf("forced: %+v", done)
	}
}

// A pin that comes between the plan and its execution counts.
func TestPinnedSinceThePlan(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	h.save()
	plan := h.r.planForget(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
	h.r.elsewhere().label(a, map[string]string{"pin": ""})
	result, err := h.r.Forget(t.Context(), plan)
	if err != nil || !slices.Equal(result.Forgotten, []engine.ID{b}) || !slices.Equal(result.Pinned, []engine.ID{a}) {
		t.Errorf("result %+v, %v", result, err)
	}
	h.hold(a, h.ids[2])
}

// Machines whose clocks are 26 hours off take turns with a workspace. Whatever the
// clocks say, the snapshot that was taken last stays, and a ttl is not over early.
func TestWritersWithWrongClocks(t *testing.T) {
	base := newRepo(t)
	dir := smallWorkspace(t)
	real := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	open := func(skew time.Duration) *engine.Repository {
		t.Helper()
		opts := base.options()
		opts.StateDir = t.TempDir() // another machine
		opts.Now = func() time.Time { return real.Add(skew) }
		r, err := engine.Open(t.Context(), base.store, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	writers := []*engine.Repository{open(0), open(26 * time.Hour), open(-26 * time.Hour)}
	var ids []engine.ID
	for i := range 9 {
		write(t, dir, map[string]string{"turn": fmt.Sprint(i)})
		opts := engine.SnapshotOptions{Path: dir, Source: "/ws", Labels: map[string]string{"ttl": "62h"}}
		if len(ids) > 0 {
			opts.Parent = ids[len(ids)-1]
		}
		result, err := writers[i%3].Snapshot(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, result.Snapshot)
		real = real.Add(time.Hour)
	}
	for _, collector := range writers {
		for name, rules := range map[string]retention.Rules{
			"last": {Last: 2}, "hourly": {Hourly: 2}, "daily": {Daily: 1}, "within": {Within: time.Minute},
		} {
			plan, err := collector.PlanForget(t.Context(), engine.ForgetOptions{Policy: keep(rules)})
			if err != nil {
				t.Fatal(err)
			}
			goes := plan.Goes()
			if slices.Contains(goes, ids[8]) || name == "last" && !slices.Equal(goes, ids[:7]) {
				t.Errorf("%s: %v go of %v", name, goes, ids)
			}
			for _, d := range plan.Groups[0].Decisions {
				if strings.HasPrefix(d.Reasons[0], "ttl") {
					t.Errorf("%v: %v", d.Snapshot.ID, d.Reasons)
				}
			}
		}
	}
}

func TestExpiredSnapshotsGo(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	take := func(ttl string) engine.ID {
		t.Helper()
		result, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, Labels: map[string]string{"ttl": ttl}})
		if err != nil {
			t.Fatal(err)
		}
		return result.Snapshot
	}
	hour, week := take("1h"), take("1w")
	r.close()
	opts := r.options()
	opts.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	later, err := engine.Open(t.Context(), r.store, opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Repository = later
	if done := r.carryOut(engine.ForgetOptions{Policy: keep(retention.Rules{All: true})}); !slices.Equal(done.Forgotten, []engine.ID{hour}) {
		t.Errorf("forgotten %v of %v and %v", done.Forgotten, hour, week)
	}
}

// Whatever number of sessions published a snapshot: it goes.
func TestForgetAllSessions(t *testing.T) {
	h := newHistory(t, mem.New())
	a := h.save()
	h.save()
	keys := keysOf(t, h.r.store)
	_, record, err := commit.Find(t.Context(), keys, a)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := commit.Publish(t.Context(), keys, commit.NewSession(), record, commit.View{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a}})
	if got := h.r.visible(); !slices.Equal(got, h.ids[1:]) {
		t.Errorf("visible %v", got)
	}
	all, err := h.r.Forgotten(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != a || all[0].At.IsZero() {
		t.Errorf("forgotten %+v, %v", all, err)
	}
}

// What cannot be read stays, unless somebody insists.
func TestUnreadableSnapshotsStay(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b, c := h.save(), h.save(), h.save()
	for _, prefix := range []string{"snapshots/" + a.String(), "labels/" + b.String()} {
		if strings.HasPrefix(prefix, "labels/") {
			h.r.label(b, map[string]string{"pin": "yes"})
		}
		key := objects(t, h.r.store, prefix)[0]
		object := read(t, h.r.store, key)
		object[len(object)/2] ^= 1
		put(t, h.r.store, key, object)
	}
	plan := h.r.planForget(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
	var unreadable []engine.ID
	for _, u := range plan.Unreadable {
		if !errors.Is(u.Err, engine.ErrDamaged) {
			t.Errorf("%v: %v", u.ID, u.Err)
		}
		unreadable = append(unreadable, u.ID)
	}
	if !slices.Equal(unreadable, sortedIDs([]engine.ID{a, b})) || len(plan.Goes()) != 0 {
		t.Errorf("unreadable %v, %v go", unreadable, plan.Goes())
	}
	if _, err := h.r.PlanForget(t.Context(), engine.ForgetOptions{Snapshots: []engine.ID{b}}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("named: %v", err)
	}
	h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a, b}, Force: true})
	if got := h.r.visible(); !slices.Equal(got, []engine.ID{c}) {
		t.Errorf("visible %v", got)
	}
}

// A second session whose record is intact will do.
func TestOneIntactSessionIsEnough(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	keys := keysOf(t, h.r.store)
	ref, record, err := commit.Find(t.Context(), keys, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit.Publish(t.Context(), keys, commit.NewSession(), record, commit.View{}, nil); err != nil {
		t.Fatal(err)
	}
	object := read(t, h.r.store, ref.Key())
	object[len(object)/2] ^= 1
	put(t, h.r.store, ref.Key(), object)
	plan := h.r.planForget(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
	if len(plan.Unreadable) != 0 || !slices.Equal(plan.Goes(), []engine.ID{a}) {
		t.Errorf("unreadable %v, %v go", plan.Unreadable, plan.Goes())
	}
	if _, err := h.r.Forget(t.Context(), plan); err != nil {
		t.Error(err)
	}
	if got := h.r.visible(); !slices.Equal(got, []engine.ID{b}) {
		t.Errorf("visible %v", got)
	}
}

func TestForgetOnAFullStore(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	h.r.close()
	for _, prefix := range []string{"forgotten/", "snapshots/"} {
		r := h.r.open(fault.New(h.r.store, fault.On(fault.Put, prefix, fault.Fail(objectstore.ErrNoSpace))))
		_, err := r.Forget(t.Context(), r.planForget(engine.ForgetOptions{Snapshots: []engine.ID{a}}))
		if !errors.Is(err, objectstore.ErrNoSpace) || !strings.Contains(err.Error(), "`snapctl gc`") || !strings.Contains(err.Error(), a.String()) {
			t.Errorf("%s: error %v", prefix, err)
		}
		if got := r.visible(); len(got) != 2 {
			t.Errorf("%s: visible %v", prefix, got)
		}
		r.close()
	}
	h.r = h.r.open(h.r.store)
	h.hold(a, b)
}

// forgottenHistory is a history of which all snapshots but the last are to be
// forgotten, on the disk of a machine that can be copied.
func forgottenHistory(t *testing.T) *history {
	h := newHistory(t, mem.New())
	for range 4 {
		h.save()
	}
	h.r.close()
	return h
}

// At every call of the store: what stays is whole, what is not forgotten yet is
// whole too, and the next run completes.
func TestForgetSurvivesEveryFault(t *testing.T) {
	h := forgottenHistory(t)
	last := h.ids[len(h.ids)-1]
	var acknowledgedOnce bool
	sweep{store: h.r.store.(*mem.Store), state: h.r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			plan, err := r.PlanForget(ctx, engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
			if err != nil {
				return nil, err
			}
			result, err := r.Forget(ctx, plan)
			acknowledgedOnce = acknowledgedOnce || err == nil
			return result.Forgotten, err
		},
		sound: func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
			visible := r.visible()
			if !slices.Contains(visible, last) {
				t.Errorf("the last snapshot is gone: %v", visible)
			}
			for _, id := range visible {
				same(t, h.looks[id], describe(t, r.restore(id)))
			}
			for _, id := range acknowledged {
				if slices.Contains(visible, id) {
					t.Errorf("%v was forgotten and is visible", id)
				}
			}
			for _, id := range h.ids { // nothing is gone for good
				if slices.Contains(visible, id) {
					continue
				}
				if got, err := r.ResolveForgotten(t.Context(), id.String()); err != nil || got != id {
					t.Errorf("%v cannot be had back: %v", id, err)
				}
			}
		},
	}.run(t)
	if !acknowledgedOnce {
		t.Error("no run was complete")
	}
}

func TestUndoForget(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	h.r.label(a, map[string]string{"note": "later"})
	h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a}})
	id, err := h.r.ResolveForgotten(t.Context(), a.String()[:8])
	if err != nil || id != a {
		t.Fatalf("%v, %v", id, err)
	}
	info, err := h.r.UndoForget(t.Context(), id)
	if err != nil || info.ID != a || info.Labels["note"] != "later" {
		t.Fatalf("%+v, %v", info, err)
	}
	if all, err := h.r.Forgotten(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("still forgotten: %+v, %v", all, err)
	}
	h.hold(a, b)
	before := objects(t, h.r.store, "")
	if again, err := h.r.UndoForget(t.Context(), id); err != nil || again.ID != a {
		t.Errorf("again: %+v, %v", again, err)
	}
	if after := objects(t, h.r.store, ""); !slices.Equal(before, after) {
		t.Errorf("the second undo changed %v to %v", before, after)
	}
	// It can be forgotten and had back once more.
	h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a}})
	if got := h.r.visible(); !slices.Equal(got, []engine.ID{b}) {
		t.Errorf("visible %v", got)
	}
	if _, err := h.r.UndoForget(t.Context(), a); err != nil {
		t.Error(err)
	}
	h.hold(a, b)
}

func TestUndoNeedsARecord(t *testing.T) {
	h := newHistory(t, mem.New())
	a := h.save()
	if _, err := h.r.UndoForget(t.Context(), engine.ID{1}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"", "abc", "latest", "zzzzzzzz", a.String(), strings.Repeat("0", 65)} {
		if id, err := h.r.ResolveForgotten(t.Context(), name); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%q is %v, %v", name, id, err)
		}
	}
}

// Within the window for an undo a collection keeps what the snapshot needs, and
// behind it the error says that it is too late.
func TestUndoAndCollections(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 6 {
		h.save()
	}
	early, late := h.ids[0], h.ids[2]
	h.r.carryOut(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 1})})
	window := thorough
	window.UndoWindow = 250 * 365 * 24 * time.Hour // the store in memory dates what it keeps to 1970
	h.r.collect(window)
	if _, err := h.r.UndoForget(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	h.hold(early, h.ids[5])
	h.r.collect(thorough)
	h.hold(early, h.ids[5])
	if _, err := h.r.UndoForget(t.Context(), late); !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrCollected) {
		t.Errorf("error %v", err)
	}
	h.hold(early, h.ids[5])
	if got := h.r.visible(); !slices.Equal(got, []engine.ID{early, h.ids[5]}) {
		t.Errorf("visible %v", got)
	}
}

// A record that is kept longer than the blobs.
func TestUndoOfACollectedSnapshotIsAnError(t *testing.T) {
	for name, collect := range map[string]func(h *history){
		"the record stays": func(h *history) {
			keys := objects(t, h.r.store, "forgotten/")
			record := read(t, h.r.store, keys[0])
			h.r.collect(thorough)
			put(t, h.r.store, keys[0], record)
		},
		"a pack is gone": func(h *history) {
			record, err := commit.LoadForgotten(t.Context(), keysOf(t, h.r.store), h.forgotten())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range record.Packs {
				remove(t, h.r.store, "packs/"+name.String())
			}
			h.r.close()
			h.r.state = t.TempDir() // no cache of its own
			h.r = h.r.open(h.r.store)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, mem.New())
			a := h.save()
			h.save()
			h.save()
			h.r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a}})
			collect(h)
			before := objects(t, h.r.store, "snapshots/")
			_, err := h.r.UndoForget(t.Context(), a)
			if !errors.Is(err, engine.ErrCollected) || errors.Is(err, engine.ErrDamaged) {
				t.Errorf("error %v", err)
			}
			if after := objects(t, h.r.store, "snapshots/"); !slices.Equal(before, after) {
				t.Errorf("published %v", after)
			}
			if left := objects(t, h.r.store, "pending/"); len(left) != 0 {
				t.Errorf("pending objects left: %v", left)
			}
		})
	}
}

// What holds data only is looked for too, though nobody reads it.
func TestUndoMissesADataPack(t *testing.T) {
	p := newPatient(t)
	r := (&testRepo{t: t, store: p.store, state: p.state}).open(p.store)
	r.carryOut(engine.ForgetOptions{Snapshots: p.snapshots[:], Force: true})
	object := read(t, p.store, p.objects["data"])
	for _, size := range []int{0, len(object) / 2} {
		if size == 0 {
			remove(t, p.store, p.objects["data"])
		} else {
			put(t, p.store, p.objects["data"], object[:size])
		}
		if _, err := r.UndoForget(t.Context(), p.snapshots[0]); !errors.Is(err, engine.ErrCollected) {
			t.Errorf("with %d bytes of the pack: %v", size, err)
		}
	}
	put(t, p.store, p.objects["data"], object)
	if _, err := r.UndoForget(t.Context(), p.snapshots[0]); err != nil {
		t.Fatal(err)
	}
	same(t, p.content[0], describe(t, r.restore(p.snapshots[0])))
}

// forgotten is the one record of a forgotten snapshot.
func (h *history) forgotten() commit.Ref {
	h.t.Helper()
	for ref, err := range commit.ListForgotten(h.t.Context(), keysOf(h.t, h.r.store), "") {
		if err != nil {
			h.t.Fatal(err)
		}
		return ref
	}
	h.t.Fatal("nothing is forgotten")
	return commit.Ref{}
}

// An undo while a collection goes on: what is condemned is copied, at any moment.
func TestUndoBesideACollection(t *testing.T) {
	for _, when := range []string{"", "pending/", "packs/"} {
		t.Run("condemned after "+when, func(t *testing.T) {
			s := newStage(t)
			s.change(map[string]string{"b/third": "third"})
			s.snapshot(s.dir)
			s.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{s.base}})
			looks := describe(t, s.restore(s.undo(when)))
			s.proveAs(s.base, looks)
		})
	}
}

// undo has the base back, while its packs are condemned: before, or right after
// something is put.
func (s *stage) undo(when string) engine.ID {
	s.t.Helper()
	condemn := func(string) { s.condemn(1, s.packs()...) }
	if when == "" {
		condemn("")
	} else {
		if when == "packs/" { // there is a rescue only if something is dead
			s.condemn(1, s.packs()[0])
			condemn = func(string) { s.condemn(2, s.packs()...) }
		}
		s.m.after = once(when, condemn)
	}
	info, err := s.UndoForget(s.t.Context(), s.base)
	if err != nil {
		s.t.Fatal(err)
	}
	return info.ID
}

// proveAs is prove for a snapshot that is not of the workspace as it is now.
func (s *stage) proveAs(id engine.ID, looks []string) {
	s.t.Helper()
	view, err := commit.ReadView(s.t.Context(), s.keys, commit.View{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.collect(slices.Collect(maps.Keys(view.Dead))...)
	s.store = s.m.Store
	same(s.t, looks, describe(s.t, s.elsewhere().restore(id)))
	_, record, err := commit.Find(s.t.Context(), s.keys, id)
	if err != nil || slices.ContainsFunc(record.Packs, view.Dead.Has) {
		s.t.Errorf("published with a dead pack: %v, %v", record.Packs, err)
	}
}

func TestUndoSurvivesEveryFault(t *testing.T) {
	h := forgottenHistory(t)
	h.r = h.r.open(h.r.store)
	h.r.carryOut(engine.ForgetOptions{Snapshots: h.ids[:2]})
	h.r.close()
	sweep{store: h.r.store.(*mem.Store), state: h.r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			info, err := r.UndoForget(ctx, h.ids[0])
			if err != nil {
				return nil, err
			}
			return []engine.ID{info.ID}, nil
		},
		sound: func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
			for _, id := range append(acknowledged, h.ids[2:]...) {
				same(t, h.looks[id], describe(t, r.restore(id)))
			}
			if slices.Contains(r.visible(), h.ids[1]) {
				t.Error("another snapshot came back")
			}
		},
	}.run(t)
}

// A reader whose snapshot is forgotten and collected under it ends with the right
// bytes, or with an error, and what is left does not look complete.
func TestRestoreOfWhatIsForgottenMeanwhile(t *testing.T) {
	h := newHistory(t, mem.New())
	a := h.save()
	h.save()
	h.save()
	collector := h.r.elsewhere()
	again := h.r.elsewhere()
	gone := false
	again.close()
	again = again.open(fault.New(h.r.store, func(op fault.Op) fault.Fault {
		if !gone && op.Kind == fault.Get && strings.HasPrefix(op.Key, "packs/") {
			gone = true
			collector.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{a}})
			collector.collect(thorough)
		}
		return fault.Fault{}
	}))
	target := filepath.Join(t.TempDir(), "restored")
	_, err := again.Restore(t.Context(), a, engine.RestoreOptions{Target: target})
	if !gone {
		t.Fatal("the restore read no pack")
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if err == nil {
		same(t, h.looks[a], describe(t, target))
	}
	h.hold(h.ids[1], h.ids[2])
}

// A pin and a forget at the same moment: whoever is late notices the other. A pin that was
// acknowledged is not lost.
func TestPinBesideAForget(t *testing.T) {
	pin := map[string]string{"pin": "release"}
	t.Run("the pin is late", func(t *testing.T) {
		r := newRepo(t)
		id := r.snapshot(smallWorkspace(t)).Snapshot
		m := &meddler{Store: r.store}
		m.before = once("labels/", func(string) {
			r.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{id}, Force: true})
		})
		late := (&testRepo{t: t, state: t.TempDir()}).open(m)
		if _, err := late.Label(t.Context(), id, pin, nil); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("labelled a snapshot that was forgotten: %v", err)
		}
	})
	t.Run("the forget is late", func(t *testing.T) {
		r := newRepo(t)
		id := r.snapshot(smallWorkspace(t)).Snapshot
		m := &meddler{Store: r.store}
		m.before = once("snapshots/", func(string) {
			if _, err := r.Label(t.Context(), id, pin, nil); err != nil {
				t.Fatal(err)
			}
		})
		late := (&testRepo{t: t, state: t.TempDir()}).open(m)
		result := late.carryOut(engine.ForgetOptions{Snapshots: []engine.ID{id}, Force: true})
		if len(result.Forgotten) != 0 || !slices.Equal(result.Pinned, []engine.ID{id}) {
			t.Errorf("forgot %+v", result)
		}
		info, err := r.elsewhere().Show(t.Context(), id)
		if err != nil || info.Labels["pin"] != "release" {
			t.Errorf("labels %v, %v", info.Labels, err)
		}
		r.collect(thorough)
		r.elsewhere().restore(id)
	})
}

// What replaces a label change that cannot be read is a pin: it may have been one.
func TestDamagedLabelBecomesAPin(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.label(id, map[string]string{"pin": "release", "stage": "gold"})
	rot(t, r.store, objects(t, r.store, "labels/")[0])
	plan, err := r.PlanRepairSnapshots(t.Context(), engine.RepairSnapshotsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.RepairSnapshots(t.Context(), plan)
	if err != nil || result.Labels != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if _, err := r.PlanForget(t.Context(), engine.ForgetOptions{Snapshots: []engine.ID{id}}); !errors.As(err, new(*retention.RefusedError)) {
		t.Errorf("forget what was pinned: %v", err)
	}
	r.clean()
}

// overtaken lets something happen before a listing.
type overtaken struct {
	objectstore.Store
	before func(prefix string)
}

func (o *overtaken) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	o.before(prefix)
	return o.Store.List(ctx, prefix, after)
}

// The newest snapshot of the source is forgotten after a writer chose it as the parent.
func TestParentIsForgottenMeanwhile(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	id := r.snapshot(dir).Snapshot
	happened := false
	late := (&testRepo{t: t, state: t.TempDir()}).open(&overtaken{r.store, once("snapshots/"+id.String(), func(string) {
		happened = true
		r.forget(id)
	})})
	result := late.snapshot(dir)
	if !happened {
		t.Fatal("the parent was not looked up")
	}
	if info, err := r.Show(t.Context(), result.Snapshot); err != nil || !info.Manifest.Parent.IsZero() {
		t.Errorf("parent %v, %v", info.Manifest.Parent, err)
	}
	r.elsewhere().restore(result.Snapshot)
}

// What could not be looked at again is neither forgotten nor pinned.
func TestForgetOfALabelThatRottedMeanwhile(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.label(id, map[string]string{"stage": "gold"})
	plan := r.planForget(engine.ForgetOptions{Snapshots: []engine.ID{id}, Force: true})
	rot(t, r.store, objects(t, r.store, "labels/")[0])
	result, err := r.Forget(t.Context(), plan)
	if !errors.Is(err, engine.ErrDamaged) || len(result.Forgotten)+len(result.Pinned) != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
