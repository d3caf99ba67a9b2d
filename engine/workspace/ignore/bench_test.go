package ignore_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

func absent(string) ([]byte, error) { return nil, fs.ErrNotExist }

// walkWorkspace asks for the 57,000 files of 7,125 directories, eight in each.
func walkWorkspace(b *testing.B, p *ignore.Policy) {
	var names [8]string
	for i := range names {
		names[i] = fmt.Sprintf("component-%d.module.js", i)
	}
	var dirs [25]string
	for i := range dirs {
		dirs[i] = fmt.Sprintf("package-%d", i)
	}
	excluded := 0
	visit := func(parent *ignore.Dir, name string) *ignore.Dir {
		dir, err := parent.Enter(name, absent)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range names {
			if _, out := dir.Excluded(name, false); out {
				excluded++
			}
		}
		return dir
	}
	b.ReportAllocs()
	for b.Loop() {
		root, err := p.Root(absent)
		if err != nil {
			b.Fatal(err)
		}
		for i := range 285 { // 285 * 25 = 7,125
			dir := visit(root, dirs[i%len(dirs)])
			for k := range 24 {
				visit(dir, dirs[k])
			}
		}
	}
	if excluded > 0 {
		b.Errorf("%d files excluded", excluded)
	}
}

func BenchmarkWalkWithoutRules(b *testing.B) {
	p, err := ignore.New(ignore.Options{Git: true})
	if err != nil {
		b.Fatal(err)
	}
	walkWorkspace(b, p)
}

func BenchmarkWalkFiftyRules(b *testing.B) {
	kinds := []string{"name-%d", "*.ext%d", "core-%d.*", "/build-%d/", "a*b%d?c", "package-1/lib/%d", "**/out/%d", "[Tt]emp%d/", "*.%d[od]", "!keep-%d"}
	var o ignore.Options
	for i := range 50 {
		o.Patterns = append(o.Patterns, fmt.Sprintf(kinds[i%len(kinds)], i))
	}
	p, err := ignore.New(o)
	if err != nil {
		b.Fatal(err)
	}
	walkWorkspace(b, p)
}
