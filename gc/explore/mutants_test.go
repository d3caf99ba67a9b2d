package explore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a mistake in the protocol, and the scenario in which it loses content.
type mutant struct {
	name     string
	scenario string
	edits    []edit
}

// edit replaces text that occurs exactly once in a file of the module.
type edit struct{ file, old, new string }

var mutants = []mutant{
	{"names of packs are used again", "reuse", []edit{
		{"packfile/builder.go", "rand.Read(random[:]) // never fails: crypto/rand ends the program instead\n\treturn blake3.Sum256(binary.LittleEndian.AppendUint64(random[:], uint64(time.Now().UnixNano())))", "_, _, _ = rand.Read, binary.LittleEndian, time.Now\n\treturn blake3.Sum256(random[:])"},
		{"packfile/seal/seal.go", "s.randomly(random[:])", ""},
	}},
	{"two attempts share a session", "stray", []edit{
		{"engine/snapshot.go", "commit.NewSession()", "commit.Session(r.ID())"},
	}},
	{"G3 without the second mark", "reuse", []edit{
		{"gc/execute.go", "return r.watch(ctx, r.settleAndSweep)", "if r.sight.generations, err = commit.ReadGenerations(ctx, r.repo.Repo, r.repo.Settled); err != nil {\nreturn err\n}\nreturn r.settleAndSweep(ctx)"},
	}},
	{"snapshots are listed before attempts", "reuse", []edit{
		{"gc/observe.go", "attempts, err := r.attempts(ctx)", "for ref, err := range commit.ListAll(ctx, r.Repo, \"\") {\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\to.early = append(o.early, ref)\n\t}\n\tattempts, err := r.attempts(ctx)"},
		{"gc/observe.go", "type observation struct {", "type observation struct {\n\tearly []commit.Ref"},
		{"gc/observe.go", "for ref, err := range commit.ListAll(ctx, repo, \"\") {", "for _, ref := range o.early {\n\t\tvar err error"},
	}},
	{"the index is read before G2", "hasty", []edit{
		{"gc/observe.go", "stats, err := r.Index.Sync(ctx, r.Store, r.Sealer)", "stats, err := r.syncOnce(ctx)"},
		{"gc/observe.go", "func (r *Repository) syncIndex(", "func (r *Repository) syncOnce(ctx context.Context) (index.SyncStats, error) {\n\tif r.synced {\n\t\treturn index.SyncStats{}, nil\n\t}\n\tr.synced = true\n\treturn r.Index.Sync(ctx, r.Store, r.Sealer)\n}\n\nfunc (r *Repository) syncIndex("},
		{"gc/gc.go", "\tmu sync.Mutex // guards what", "\tsynced bool\n\tmu sync.Mutex // guards what"},
		// It is noticed that a pack which an attempt names is not known.
		{"gc/observe.go", "if _, there := o.packs[name]; there && !known", "if _, there := o.packs[name]; false && there && !known"},
		// Readers read it again when they miss something.
		{"engine/repository.go", "sync: func(ctx context.Context) (bool, error) {\n\t\tstats, err := db.Sync(ctx, r.store, r.sealer)\n", "sync: func(ctx context.Context) (bool, error) {\n\t\tvar stats index.SyncStats\n\t\tvar err error\n"},
	}},
	{"W5 is skipped", "reuse", []edit{
		{"engine/commit/publish.go", "record, view, err := settle(ctx, repo, session, record, view, rescuer) // W5", "var err error\n\t_ = settle"},
	}},
	{"W6 before W4", "reuse", []edit{
		{"engine/commit/publish.go", "	if err := putPending(ctx, repo, session, record); err != nil { // W4\n\t\treturn Published{}, err\n\t}\n", ""},
		{"engine/commit/publish.go", "	size, err := putSnapshot(ctx, repo, session, record) // W6\n\tif err != nil {\n\t\treturn Published{}, err\n\t}\n", "	size, err := putSnapshot(ctx, repo, session, record) // W6\n\tif err == nil {\n\t\terr = putPending(ctx, repo, session, record)\n\t}\n\tif err != nil {\n\t\treturn Published{}, err\n\t}\n"},
	}},
	{"the segment after W5", "hasty", []edit{
		{"engine/commit/publish.go", "	size, err := putSnapshot(", "	if late, ok := rescuer.(interface{ Late() error }); ok {\n\t\tif err := late.Late(); err != nil {\n\t\t\treturn Published{}, err\n\t\t}\n\t}\n\tsize, err := putSnapshot("},
		{"engine/rescue.go", "type rescuer struct {", "func (s *rescuer) Late() error { return s.late() }\n\ntype rescuer struct {\n\tlate func() error"},
		{"engine/snapshot.go", "	size, err := r.indexPacks(ctx, db, result)\n", "	size, err := uint64(0), error(nil)\n\tr.late = func() error { _, err := r.indexPacks(ctx, db, result); return err }\n"},
		{"engine/snapshot.go", "	rescuer := r.rescuer()\n", "	rescuer := r.rescuer()\n\trescuer.late = r.late\n"},
		{"engine/repository.go", "type Repository struct {", "type Repository struct {\n\tlate func() error"},
	}},
	{"other generations are ignored", "duplicates", []edit{
		{"gc/settle.go", "for _, open := range o.generations.Open {", "for _, open := range o.generations.Open[len(o.generations.Open)-1:] {"},
		{"gc/settle.go", "for _, open := range s.generations.Open {", "for _, open := range s.generations.Open[len(s.generations.Open)-1:] {"},
	}},
	{"only the first of several condemned copies stays", "spares", []edit{
		{"gc/settle.go", "spared[at.Pack] = struct{}{}", "spared[at.Pack] = struct{}{}\n\t\t\t\tknown = true\n\t\t\t\tbreak"},
	}},
	{"an attempt is removed without winning its tombstone", "expiry", []edit{
		{"engine/commit/pending.go", "err = putTombstone(ctx, repo, key, expired, objectstore.PutOptions{IfAbsent: true})", "err = nil"},
	}},
	{"the tombstone of an expired attempt is removed", "expiry", []edit{
		{"gc/observe.go", "case commit.StateForgotten:", "case commit.StateForgotten, commit.StateExpired:"},
		{"engine/commit/forget.go", "	if state != StateForgotten {\n\t\treturn fmt.Errorf(\"%s: %w\", ref.Key(), ErrExpired)\n\t}\n", "\t_ = state\n"},
	}},
	{"a tombstone is removed while its attempt is there", "retry", []edit{
		{"gc/execute.go", "if pending[ref.Session] {", "if false {"},
	}},
}

// mutated returns the changed files, by their paths.
func (m mutant) mutated(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if _, ok := texts[path]; !ok {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Fatalf("the mutant is stale: %s has %d times\n%s", e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	return texts
}

// TestMutantsAreFresh makes sure that what the mutants change is there. That they are
// caught is tested by TestMutants, with the tag servers.
func TestMutantsAreFresh(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			m.mutated(t)
			find(t, m.scenario)
		})
	}
}
