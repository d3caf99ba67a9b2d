package workspace

import (
	"container/heap"
	"slices"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/engine/manifest"
)

// maxOmitted bounds the paths and reasons of all omissions together, in bytes:
// a manifest of long paths would be too large otherwise.
const maxOmitted = 2 << 20

// omissions keeps the first ones in the order of paths, whatever the order in
// which they are found: a heap with the last one on top.
type omissions struct {
	mu   sync.Mutex
	list omissionHeap
}

// add records an omission. Its reason is cut to the bound of manifests.
func (o *omissions) add(path string, class manifest.OmissionClass, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	reason = reason[:min(len(reason), manifest.MaxReason)]
	heap.Push(&o.list, manifest.Omission{Path: path, Class: class, Reason: reason})
	for len(o.list.items) > manifest.MaxOmissions || o.list.size > maxOmitted {
		heap.Pop(&o.list)
	}
}

// sorted returns what was kept.
func (o *omissions) sorted() []manifest.Omission {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.list.items)
	slices.SortFunc(list, compareOmissions)
	return list
}

func compareOmissions(a, b manifest.Omission) int {
	if c := strings.Compare(a.Path, b.Path); c != 0 {
		return c
	}
	if a.Class != b.Class {
		return int(a.Class) - int(b.Class)
	}
	return strings.Compare(a.Reason, b.Reason)
}

type omissionHeap struct {
	items []manifest.Omission
	size  int
}

func (h *omissionHeap) Len() int           { return len(h.items) }
func (h *omissionHeap) Less(i, j int) bool { return compareOmissions(h.items[i], h.items[j]) > 0 }
func (h *omissionHeap) Swap(i, j int)      { h.items[i], h.items[j] = h.items[j], h.items[i] }

func (h *omissionHeap) Push(x any) {
	o := x.(manifest.Omission)
	h.items = append(h.items, o)
	h.size += len(o.Path) + len(o.Reason)
}

func (h *omissionHeap) Pop() any {
	last := h.items[len(h.items)-1]
	h.items[len(h.items)-1] = manifest.Omission{}
	h.items = h.items[:len(h.items)-1]
	h.size -= len(last.Path) + len(last.Reason)
	return last
}
