package commit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// View is what a writer knows of the collector's generations: all up to Highest
// and the packs that they declare dead. The zero View knows of none. A View is a
// value: it does not change once made.
type View struct {
	Highest uint64
	Dead    index.PackSet
	// Damaged are the packs that were marked when the attempt began.
	Damaged index.PackSet
}

// Avoid returns the packs whose blobs must not be reused: the dead and the
// damaged ones.
func (v View) Avoid() index.PackSet {
	if len(v.Damaged) == 0 {
		return v.Dead
	}
	avoid := maps.Clone(v.Damaged)
	maps.Copy(avoid, v.Dead)
	return avoid
}

// ReadView lists the generations after old (step W1, and the listing of W5) and
// returns a view that includes them. dead(n) is final(n) if it exists, otherwise
// condemned(n).
func ReadView(ctx context.Context, repo Repo, old View) (View, error) {
	fresh, err := listGenerations(ctx, repo.Store, old.Highest)
	if err != nil || len(fresh) == 0 {
		return old, err
	}
	view := View{Highest: old.Highest, Dead: index.PackSet{}, Damaged: old.Damaged}
	for name := range old.Dead {
		view.Dead[name] = struct{}{}
	}
	for _, g := range fresh {
		names, err := readDead(ctx, repo, g)
		if err != nil {
			return old, err
		}
		for _, name := range names {
			view.Dead[name] = struct{}{}
		}
		view.Highest = g.number
	}
	return view, nil
}

// generation is a generation as a listing shows it.
type generation struct {
	number uint64
	final  bool
}

// listGenerations lists the generations after n in ascending order.
func listGenerations(ctx context.Context, store objectstore.Store, n uint64) ([]generation, error) {
	after := ""
	if n > 0 {
		after = generationKey(n, "~") // behind every object of n; '~' is in no key
	}
	var all []generation
	for info, err := range store.List(ctx, gcPrefix, after) {
		if err != nil {
			return nil, err
		}
		number, kind, err := parseGenerationKey(info.Key)
		if err != nil {
			continue // not ours, such as a console's folder marker: Verify names it
		}
		if len(all) == 0 || all[len(all)-1].number != number {
			all = append(all, generation{number: number})
		}
		if kind == "final" {
			all[len(all)-1].final = true
		}
	}
	return all, nil
}

// generationKey is gc/<n>/<kind>, n in ten digits, so that keys sort as numbers.
func generationKey(n uint64, kind string) string {
	return fmt.Sprintf("%s%010d/%s", gcPrefix, n, kind)
}

func parseGenerationKey(key string) (n uint64, kind string, err error) {
	digits, kind, ok := strings.Cut(strings.TrimPrefix(key, gcPrefix), "/")
	n, perr := strconv.ParseUint(digits, 10, 64)
	if !ok || perr != nil || n == 0 || generationKey(n, kind) != key || kind != "condemned" && kind != "final" {
		return 0, "", fmt.Errorf("%s: %w", key, ErrForeign)
	}
	return n, kind, nil
}

// readDead reads dead(n). A final list that appears between the listing and the
// read is a subset of the condemned list that is read instead: safe.
func readDead(ctx context.Context, repo Repo, g generation) ([]packfile.Name, error) {
	kind, unit := "condemned", seal.Condemned
	if g.final {
		kind, unit = "final", seal.Final
	}
	key := generationKey(g.number, kind)
	content, err := readObject(ctx, repo, key, unit)
	if err != nil {
		return nil, err
	}
	names, err := DecodeNames(content)
	if err != nil {
		return nil, failed(key, err)
	}
	return names, nil
}

// readObject reads and opens one object of the protocol.
func readObject(ctx context.Context, repo Repo, key string, unit seal.Unit) ([]byte, error) {
	sealed, err := objectstore.ReadAll(ctx, repo.Store, key, maxObject)
	if err != nil {
		return nil, err
	}
	content, err := repo.Sealer.Open(nil, unit, sealed, seal.MaxContent)
	if err != nil {
		return nil, failed(key, err)
	}
	return content, nil
}

// A list of pack names, as in condemned and final lists and behind a manifest.
// Part of the format; do not change.
//
//	varint    number of names
//	32 bytes  each name, strictly ascending

// EncodeNames encodes a list of pack names. It sorts them and drops duplicates.
func EncodeNames(names []packfile.Name) []byte { return appendNames(nil, names) }

func appendNames(b []byte, names []packfile.Name) []byte {
	names = slices.Clone(names)
	slices.SortFunc(names, packfile.Name.Compare)
	names = slices.Compact(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = append(b, name[:]...)
	}
	return b
}

// DecodeNames is the inverse of EncodeNames. Errors wrap ErrDamaged.
func DecodeNames(b []byte) ([]packfile.Name, error) {
	d := wire.NewDecoder("pack list", b)
	names := decodeNames(d)
	return names, d.Finish()
}

func decodeNames(d *wire.Decoder) []packfile.Name {
	names := make([]packfile.Name, d.Count(len(packfile.Name{})))
	for i := range names {
		copy(names[i][:], d.Bytes(len(names[i])))
		if i > 0 && names[i-1].Compare(names[i]) >= 0 {
			d.Fail("pack names are not sorted")
		}
		if d.Err() != nil {
			return nil
		}
	}
	return names
}

// isGone reports whether err says that an object does not exist.
func isGone(err error) bool { return errors.Is(err, objectstore.ErrNotExist) }
