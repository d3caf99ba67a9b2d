package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// findDuplicates finds blobs of which more than one good pack holds a copy: two
// writers stored the same at the same time, or what was lost came back. The pack of
// the smallest name counts as the one that holds the blob. One pass over the index,
// whose copies of a blob come one after the other.
func (c *checker) findDuplicates(ctx context.Context) error {
	if c.partial() {
		return nil
	}
	spare := map[packfile.Name]*Duplicate{}
	var same []index.Copy
	for at, err := range c.db.Blobs(ctx) {
		if err != nil {
			return err
		}
		if len(same) > 0 && same[0].ID != at.ID {
			countSpare(spare, same)
			same = same[:0]
		}
		if c.bad[at.Pack] == nil && !c.dead.Has(at.Pack) && !c.marked.Has(at.Pack) {
			same = append(same, at)
		}
	}
	countSpare(spare, same)
	for _, d := range slices.SortedFunc(maps.Values(spare), func(a, b *Duplicate) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Object, b.Object))
	}) {
		c.report.Duplicates = append(c.report.Duplicates, *d)
	}
	return nil
}

// countSpare counts all copies of a blob but one.
func countSpare(spare map[packfile.Name]*Duplicate, copies []index.Copy) {
	if len(copies) < 2 {
		return
	}
	first := slices.MinFunc(copies, func(a, b index.Copy) int { return a.Pack.Compare(b.Pack) })
	for _, at := range copies {
		if at.Pack == first.Pack {
			continue
		}
		d := spare[at.Pack]
		if d == nil {
			d = &Duplicate{Object: packKey(at.Pack)}
			spare[at.Pack] = d
		}
		d.Blobs++
		d.Bytes += uint64(at.Length)
	}
}
