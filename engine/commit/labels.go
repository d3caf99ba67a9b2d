package commit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// LabelChange sets and removes labels of a snapshot after it was published.
type LabelChange struct {
	Set    []manifest.Label // sorted by key, without duplicates
	Remove []string         // sorted, without duplicates
}

// The content of labels/<snapshot id>/<sequence>-<name>: the sequence in ten digits
// counting from 1, the name in 32 random hexadecimal digits, so that no key is used
// twice. Changes apply in the order of their keys, over the manifest's labels. Part of
// the format; do not change.
//
//	varint  number of labels to set, for each: string key, string value
//	varint  number of labels to remove, for each: string key

// Encode returns the canonical encoding.
func (c LabelChange) Encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(c.Set)))
	for _, l := range c.Set {
		b = wire.AppendString(wire.AppendString(b, l.Key), l.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Remove)))
	for _, key := range c.Remove {
		b = wire.AppendString(b, key)
	}
	return b
}

// DecodeLabelChange is the inverse of Encode. Errors wrap ErrDamaged.
func DecodeLabelChange(b []byte) (LabelChange, error) {
	d := wire.NewDecoder("label change", b)
	var c LabelChange
	for range d.Count(2) {
		l := manifest.Label{Key: string(d.String(manifest.MaxLabelKey)), Value: string(d.String(manifest.MaxLabelValue))}
		if n := len(c.Set); n > 0 && c.Set[n-1].Key >= l.Key {
			d.Fail("labels are not sorted")
		}
		c.Set = append(c.Set, l)
	}
	for range d.Count(1) {
		key := string(d.String(manifest.MaxLabelKey))
		if n := len(c.Remove); n > 0 && c.Remove[n-1] >= key {
			d.Fail("labels are not sorted")
		}
		c.Remove = append(c.Remove, key)
	}
	return c, d.Finish()
}

// NewLabelChange returns the change that sets and removes the given labels.
func NewLabelChange(set map[string]string, remove []string) (LabelChange, error) {
	labels, err := SortedLabels(set)
	c := LabelChange{Set: labels, Remove: slices.Compact(slices.Sorted(slices.Values(remove)))}
	return c, err
}

// SortedLabels returns labels as manifests hold them, or an error that names
// one which is too long.
func SortedLabels(set map[string]string) ([]manifest.Label, error) {
	labels := make([]manifest.Label, 0, len(set))
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		if key == "" || len(key) > manifest.MaxLabelKey || len(value) > manifest.MaxLabelValue {
			return nil, fmt.Errorf("label %.40q: a key has 1 to %d bytes, a value at most %d", key, manifest.MaxLabelKey, manifest.MaxLabelValue)
		}
		labels = append(labels, manifest.Label{Key: key, Value: value})
	}
	if len(labels) > manifest.MaxLabels {
		return nil, fmt.Errorf("%d labels: at most %d are possible", len(labels), manifest.MaxLabels)
	}
	return labels, nil
}

func labelKey(id blob.ID, sequence uint64, name Session) string {
	return fmt.Sprintf("%s%v/%010d-%s", labelPrefix, id, sequence, name)
}

// parseLabelKey is the inverse of labelKey. Errors wrap ErrForeign.
func parseLabelKey(key string) (id blob.ID, sequence uint64, err error) {
	snapshot, change, _ := strings.Cut(strings.TrimPrefix(key, labelPrefix), "/")
	digits, name, _ := strings.Cut(change, "-")
	id, err = blob.ParseID(snapshot)
	if err == nil {
		sequence, err = strconv.ParseUint(digits, 10, 64)
	}
	if err != nil || !Session(name).valid() || labelKey(id, sequence, Session(name)) != key {
		return blob.ID{}, 0, fmt.Errorf("%s: %w", key, ErrForeign)
	}
	return id, sequence, nil
}

// LoadLabelChange reads a change of labels. ErrNotFound if it is gone.
func LoadLabelChange(ctx context.Context, repo Repo, key string) (LabelChange, error) {
	content, err := readObject(ctx, repo, key, seal.Label)
	if isGone(err) {
		err = failed(key, ErrNotFound)
	}
	if err != nil {
		return LabelChange{}, err
	}
	change, err := DecodeLabelChange(content)
	if err != nil {
		return LabelChange{}, failed(key, err)
	}
	return change, nil
}

// Labels returns the labels in force: the manifest's and all later changes.
func Labels(ctx context.Context, repo Repo, id blob.ID, m *manifest.Manifest) (map[string]string, error) {
	labels, _, err := readLabels(ctx, repo, id, m)
	return labels, err
}

func readLabels(ctx context.Context, repo Repo, id blob.ID, m *manifest.Manifest) (labels map[string]string, last uint64, err error) {
	labels = m.LabelMap()
	for info, err := range repo.Store.List(ctx, labelPrefix+id.String()+"/", "") {
		if err != nil {
			return nil, 0, err
		}
		_, sequence, err := parseLabelKey(info.Key)
		if err != nil {
			continue // no label of ours: Verify names it
		}
		change, err := LoadLabelChange(ctx, repo, info.Key)
		if errors.Is(err, ErrNotFound) {
			continue // a collection has removed it: the snapshot is gone
		}
		if err != nil {
			return nil, 0, err
		}
		change.apply(labels)
		last = sequence
	}
	return labels, last, nil
}

func (c LabelChange) apply(labels map[string]string) {
	for _, l := range c.Set {
		labels[l.Key] = l.Value
	}
	for _, key := range c.Remove {
		delete(labels, key)
	}
}

// AddLabels puts a change behind all that it sees and returns the labels then in force.
// Changes of several writers all apply: one that was acknowledged before another was begun
// comes before it, and of two at the same time all readers see the same one first.
//
// No key is used twice, so a collector that deletes the labels of a snapshot that is gone
// never hits one that was put since, when the snapshot was published again.
func AddLabels(ctx context.Context, repo Repo, id blob.ID, m *manifest.Manifest, change LabelChange) (map[string]string, error) {
	_, last, err := readLabels(ctx, repo, id, m)
	if err != nil {
		return nil, err
	}
	if last == maxLabelSequence {
		return nil, fmt.Errorf("labels of %v: %w: sequence is used up", id, ErrDamaged)
	}
	key := labelKey(id, last+1, NewSession())
	sealed := sealFor(repo, key, seal.Label, change.Encode())
	_, err = repo.Store.Put(ctx, key, bytes.NewReader(sealed), objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExist) { // by a put of ours, whose answer was lost
		err = readBack(ctx, repo, key, sealed, err)
	}
	if err != nil {
		return nil, err
	}
	return Labels(ctx, repo, id, m)
}

// ReplaceLabel puts a change in place of one that cannot be read.
func ReplaceLabel(ctx context.Context, repo Repo, key string, change LabelChange) error {
	if _, _, err := parseLabelKey(key); err != nil {
		return err
	}
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealFor(repo, key, seal.Label, change.Encode())), objectstore.PutOptions{})
	return err
}

// maxLabelSequence is the last that ten digits can name: keys sort as numbers.
const maxLabelSequence = 9_999_999_999

// Relabelled reports whether the labels of a snapshot were changed since it was published.
func Relabelled(ctx context.Context, repo Repo, id blob.ID) (bool, error) {
	for info, err := range repo.Store.List(ctx, labelPrefix+id.String()+"/", "") {
		if err != nil {
			return false, err
		}
		if _, _, err := parseLabelKey(info.Key); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// LabelObject is one change of labels as a listing shows it.
type LabelObject struct {
	Key     string
	ID      blob.ID   // of the snapshot
	ModTime time.Time // when it was put, by the store's clock
}

// ListLabels yields all changes of labels, in the order of their snapshots.
func ListLabels(ctx context.Context, repo Repo) iter.Seq2[LabelObject, error] {
	return func(yield func(LabelObject, error) bool) {
		for info, err := range repo.Store.List(ctx, labelPrefix, "") {
			if err != nil {
				yield(LabelObject{}, err)
				return
			}
			id, _, err := parseLabelKey(info.Key)
			if err != nil {
				continue // no label of ours: Verify names it
			}
			if !yield(LabelObject{info.Key, id, info.ModTime}, nil) {
				return
			}
		}
	}
}
