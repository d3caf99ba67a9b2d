package commit

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestLabelsApplyInOrder(t *testing.T) {
	repo, id := newRepo(mem.New()), blob.ID{1}
	m := &manifest.Manifest{Labels: []manifest.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}}}
	for _, step := range []struct {
		set    map[string]string
		remove []string
		want   map[string]string
	}{
		{set: map[string]string{"a": "2", "c": "3"}, want: map[string]string{"a": "2", "b": "1", "c": "3"}},
		{remove: []string{"b", "absent"}, want: map[string]string{"a": "2", "c": "3"}},
		{set: map[string]string{"b": ""}, remove: []string{"a"}, want: map[string]string{"b": "", "c": "3"}},
	} {
		change, err := NewLabelChange(step.set, step.remove)
		if err != nil {
			t.Fatal(err)
		}
		got, err := AddLabels(t.Context(), repo, id, m, change)
		if err != nil || !maps.Equal(got, step.want) {
			t.Errorf("after %v -%v: %v, %v; want %v", step.set, step.remove, got, err, step.want)
		}
	}
}

func TestConcurrentLabelsAllApply(t *testing.T) {
	repo, id, m := newRepo(mem.New()), blob.ID{1}, &manifest.Manifest{}
	var wg sync.WaitGroup
	const writers = 8
	for n := range writers {
		wg.Go(func() {
			change, err := NewLabelChange(map[string]string{fmt.Sprint(n): "x"}, nil)
			if err == nil {
				_, err = AddLabels(t.Context(), repo, id, m, change)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	labels, err := Labels(t.Context(), repo, id, m)
	if err != nil || len(labels) != writers {
		t.Errorf("%d labels of %d, %v", len(labels), writers, err)
	}
}

func TestLabelWithALostAnswerAppliesOnce(t *testing.T) {
	repo := newRepo(fault.New(mem.New(), fault.On(fault.Put, labelPrefix, fault.Repeat())))
	change, err := NewLabelChange(map[string]string{"k": "v"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AddLabels(t.Context(), repo, blob.ID{1}, &manifest.Manifest{}, change); err != nil {
		t.Fatal(err)
	}
	if objects := keys(t, repo.Store, labelPrefix); len(objects) != 1 {
		t.Errorf("label objects: %v", objects)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	for _, bad := range []map[string]string{
		{"": "x"}, {strings.Repeat("k", manifest.MaxLabelKey+1): "x"}, {"k": strings.Repeat("v", manifest.MaxLabelValue+1)},
	} {
		if _, err := NewLabelChange(bad, nil); err == nil {
			t.Errorf("label %.20q was accepted", bad)
		}
	}
}

func TestDamagedLabelIsNamed(t *testing.T) {
	repo, id, m := newRepo(mem.New()), blob.ID{1}, &manifest.Manifest{}
	key := labelKey(id, 1, NewSession())
	put(t, repo, key, []byte("this is no sealed unit, but long enough to be one: 0123456789"))
	_, err := Labels(t.Context(), repo, id, m)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key) {
		t.Errorf("error %v does not name %s as damaged", err, key)
	}
}
