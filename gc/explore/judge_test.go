package explore

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestJudge changes a repository in which all is well, and looks at the verdict.
func TestJudge(t *testing.T) {
	flip := func(data []byte) []byte {
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
		return data
	}
	for name, c := range map[string]struct {
		change func(g *ground)
		says   string // nothing: all is well
	}{
		"as it is":               {func(*ground) {}, ""},
		"pack gone":              {func(g *ground) { g.remove("packs/") }, "lost content"},
		"segment gone":           {func(g *ground) { g.remove("index/") }, "lost content"},
		"snapshot gone":          {func(g *ground) { g.remove("snapshots/") }, ""},
		"pack damaged":           {func(g *ground) { g.rewrite("packs/", flip) }, "another name"},
		"segment damaged":        {func(g *ground) { g.rewrite("index/", flip) }, "index/"},
		"snapshot damaged":       {func(g *ground) { g.rewrite("snapshots/", flip) }, "snapshots/"},
		"pack condemned":         {func(g *ground) { g.condemned(g.packs()...) }, ""},
		"pack dead":              {func(g *ground) { g.dead() }, "lost content"},
		"pack dead, and another": {func(g *ground) { g.dead(); g.other() }, ""},
		"forgotten, pack gone":   {func(g *ground) { g.forgottenLately(g.only()); g.remove("packs/") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t)
			g.computer("writer").write("a", "content of a").saved()
			c.change(g)
			perform(t, g.scenario(), func(t *testing.T, s *stage) {
				err := s.judge.keeps(s.first)
				if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("verdict: %v, want %q", err, c.says)
				}
			})
		})
	}
}

func (g *ground) remove(prefix string) {
	for _, key := range g.keysBelow(prefix) {
		if err := g.store.Delete(g.t.Context(), key); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *ground) rewrite(prefix string, change func([]byte) []byte) {
	for _, key := range g.keysBelow(prefix) {
		data, err := objectstore.ReadAll(g.t.Context(), g.store, key, 1<<20)
		if err == nil {
			_, err = g.store.Put(g.t.Context(), key, bytes.NewReader(change(data)), objectstore.PutOptions{})
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// dead says that all packs are.
func (g *ground) dead() {
	packs := g.packs()
	g.condemned(packs...)
	g.world(func(ctx context.Context) error {
		_, err := commit.Finalise(ctx, g.repo(g.store), 1, packs)
		return err
	})
}

// other stores the same content in another pack.
func (g *ground) other() {
	g.apart(func() { g.computer("other").write("a", "content of a").saved() })
}

// only is the one snapshot that there is.
func (g *ground) only() engine.ID {
	id, _, _ := strings.Cut(strings.TrimPrefix(g.keysBelow("snapshots/")[0], "snapshots/"), "/")
	parsed, err := blob.ParseID(id)
	if err != nil {
		g.t.Fatal(err)
	}
	return parsed
}

// Who says that a snapshot is published must be right, until somebody forgets it.
func TestAcknowledgedSnapshotsAreVisible(t *testing.T) {
	g := newGround(t)
	id := g.computer("writer").write("a", "content of a").saved().String()
	saying := func(id string) *Actor {
		return &Actor{Name: "saying", Run: func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error) {
			begin()
			_, err := listed(ctx, store)
			return Outcome{Acknowledged: []string{id}, Summary: "said"}, err
		}}
	}
	silent := g.forgetter(id)
	silent.Forgets = false
	for name, c := range map[string]struct {
		actors []*Actor
		wrong  bool
	}{
		"true":                             {[]*Actor{saying(id)}, false},
		"not true":                         {[]*Actor{saying(strings.Repeat("ab", 32))}, true},
		"forgotten":                        {[]*Actor{saying(id), g.forgetter(id)}, false},
		"forgotten by who must not forget": {[]*Actor{saying(id), silent}, true},
	} {
		if r := Explore(t, g.scenario(c.actors...), 0, 0); (r.Violation != nil) != c.wrong {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
