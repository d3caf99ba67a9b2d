package retention

import (
	"cmp"
	"fmt"
	"strings"
)

// Grouping says which snapshots are counted together. The zero value groups by
// source.
type Grouping struct {
	label    string
	together bool
}

// BySource counts the snapshots of each source apart.
func BySource() Grouping { return Grouping{} }

// ByLabel counts the snapshots of each value of a label apart, and those without
// the label by source.
func ByLabel(key string) Grouping { return Grouping{label: key} }

// Together counts all snapshots as one group.
func Together() Grouping { return Grouping{together: true} }

// ParseGrouping reads what String prints: "source", "none" or "label:KEY".
func ParseGrouping(text string) (Grouping, error) {
	key, byLabel := strings.CutPrefix(text, "label:")
	switch {
	case text == "source":
		return BySource(), nil
	case text == "none":
		return Together(), nil
	case byLabel && key != "":
		return ByLabel(key), nil
	}
	return Grouping{}, fmt.Errorf("%q is not source, label:KEY or none", text)
}

func (g Grouping) String() string {
	switch {
	case g.together:
		return "none"
	case g.label != "":
		return "label:" + g.label
	}
	return "source"
}

// GroupKey is what the snapshots of a group have in common: the value of a label,
// or else the source, or nothing, if All is set.
type GroupKey struct {
	All    bool
	Label  Label // without a key: none
	Source string
}

func (g Grouping) key(s Snapshot) GroupKey {
	if g.together {
		return GroupKey{All: true}
	}
	if value, ok := s.Labels[g.label]; ok && g.label != "" {
		return GroupKey{Label: Label{g.label, value}}
	}
	return GroupKey{Source: s.Source}
}

func (k GroupKey) String() string {
	switch {
	case k.All:
		return "all snapshots"
	case k.Label.Key != "":
		return "label " + k.Label.Key + "=" + k.Label.Value
	}
	return "source " + k.Source
}

func (k GroupKey) compare(other GroupKey) int {
	return cmp.Or(
		cmp.Compare(k.Label.Key, other.Label.Key), cmp.Compare(k.Label.Value, other.Label.Value),
		cmp.Compare(k.Source, other.Source))
}
