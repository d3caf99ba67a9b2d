package commit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// View is what a writer knows of the collector's generations: all up to Highest
// and the packs that they declare dead, and which packs are marked as damaged.
// The zero View knows of none. A View is a value: it does not change once made.
//
// An older view is as safe as a new one, since step W5 reads what came after it:
// so a view may be kept from snapshot to snapshot (see View.Encode), which saves
// the listing of step W1.
type View struct {
	Highest uint64
	Mark    string // of the generation Highest: see generation.mark
	Dead    index.PackSet
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

// Covers reports whether the view knows all that next does.
func (v View) Covers(next View) bool {
	if next.Highest != v.Highest || next.Mark != v.Mark {
		return false
	}
	for name := range next.Damaged {
		if !v.Damaged.Has(name) {
			return false
		}
	}
	return true
}

// Equal reports whether both views know the same. The generations and their lists, which
// marks tell apart, decide which packs are dead.
func (v View) Equal(other View) bool {
	return v.Highest == other.Highest && v.Mark == other.Mark && len(v.Dead) == len(other.Dead) && maps.Equal(v.Damaged, other.Damaged)
}

// errOtherStore says that a view was not read from this store.
var errOtherStore = errors.New("the repository was put back to another state, or is a copy")

// ReadView lists the generations after old (step W1, and the listing of W5) and
// the marks of damage, in one listing, and returns a view that includes them.
// dead(n) is final(n) if it exists, otherwise condemned(n). After an error it
// returns old, with the marks as far as they are known.
//
// If old was read from another store, such as a copy of this one from before or
// beside old's last collection, it counts for nothing.
func ReadView(ctx context.Context, repo Repo, old View) (View, error) {
	view, err := extend(ctx, repo, old)
	if errors.Is(err, errOtherStore) {
		return extend(ctx, repo, View{})
	}
	return view, err
}

// extend is ReadView for a view that must be of this store: errOtherStore if it
// is not. The listing begins at old's own highest generation, to see that it is
// there, and the same.
func extend(ctx context.Context, repo Repo, old View) (View, error) {
	listed, err := listCollector(ctx, repo.Store, old.Highest)
	if err != nil {
		return old, err
	}
	fresh := listed.generations
	if old.Highest > 0 {
		if len(fresh) == 0 || fresh[0].number != old.Highest {
			return old, errOtherStore
		}
		if mark, err := fresh[0].mark(ctx, repo); err != nil || !sameGeneration(old.Mark, mark) {
			return old, cmp.Or(err, errOtherStore)
		}
		fresh = fresh[1:]
	}
	view := View{Highest: old.Highest, Mark: old.Mark, Dead: old.Dead, Damaged: listed.damaged}
	if len(fresh) == 0 {
		return view, nil
	}
	old.Damaged = listed.damaged
	view.Dead = index.PackSet{}
	maps.Copy(view.Dead, old.Dead)
	for i, list := range readDeadLists(ctx, repo, fresh) {
		if list.err != nil {
			return old, list.err
		}
		for _, name := range list.names {
			view.Dead[name] = struct{}{}
		}
		view.Highest = fresh[i].number
	}
	view.Mark, err = fresh[len(fresh)-1].mark(ctx, repo)
	if err != nil {
		return old, err
	}
	return view, nil
}

// mark tells the generation from another one of the same number, by its condemned list
// and its final list, if there is one. Each is put once and never changes.
func (g generation) mark(ctx context.Context, repo Repo) (string, error) {
	mark, err := markOf(ctx, repo, g.number, "condemned", g.condemned)
	if err != nil || !g.final {
		return mark, err
	}
	final, err := markOf(ctx, repo, g.number, "final", g.finalList)
	return mark + final, err
}

// markOf tells a list from others by its ETag; where listings show none, by a hash of
// the object. No request but in that case.
func markOf(ctx context.Context, repo Repo, n uint64, kind string, info objectstore.Info) (string, error) {
	if info.ETag != "" {
		return fmt.Sprintf("%d %s;", info.Size, info.ETag), nil
	}
	object, err := objectstore.ReadAll(ctx, repo.Store, generationKey(n, kind), maxObject)
	if isGone(err) {
		return "none;", nil
	}
	sum := blake3.Sum256(object)
	return hex.EncodeToString(sum[:]) + ";", err
}

// sameGeneration reports whether a generation that now has a mark is the one that had
// another when it was read. It may have been settled since; that the final list is gone,
// or another one, tells of a store that was put back.
func sameGeneration(read, now string) bool {
	return strings.HasSuffix(read, ";") && strings.HasPrefix(now, read)
}

// The encoding of a View, which is kept in local state only:
//
//	varint  highest generation
//	string  its mark
//	list    of dead packs, see EncodeNames
//	list    of damaged packs

// Encode returns the canonical encoding.
func (v View) Encode() []byte {
	b := wire.AppendString(binary.AppendUvarint(nil, v.Highest), v.Mark)
	b = appendNames(b, slices.Collect(maps.Keys(v.Dead)))
	return appendNames(b, slices.Collect(maps.Keys(v.Damaged)))
}

// DecodeView is the inverse of Encode. Errors wrap ErrDamaged.
func DecodeView(b []byte) (View, error) {
	d := wire.NewDecoder("view", b)
	v := View{Highest: d.Uvarint(maxGeneration), Mark: string(d.String(maxMark)), Dead: index.PackSet{}, Damaged: index.PackSet{}}
	for _, name := range decodeNames(d) {
		v.Dead[name] = struct{}{}
	}
	for _, name := range decodeNames(d) {
		v.Damaged[name] = struct{}{}
	}
	return v, d.Finish()
}

const (
	maxGeneration = 9_999_999_999 // the last that ten digits can name
	maxMark       = 1 << 10       // bytes; stores choose their ETags
)

// generation is a generation as a listing shows it.
type generation struct {
	number    uint64
	final     bool
	condemned objectstore.Info // of the condemned list
	finalList objectstore.Info // of the final list, if there is one
}

// collectorListing is what a listing of gc/ shows.
type collectorListing struct {
	generations []generation // ascending
	damaged     index.PackSet
}

// listCollector lists the generations from n on, and the marks of damage, whose
// keys come after those of all generations.
func listCollector(ctx context.Context, store objectstore.Store, n uint64) (collectorListing, error) {
	after := ""
	if n > 0 {
		after = generationKey(n, "")
	}
	var all collectorListing
	for info, err := range store.List(ctx, gcPrefix, after) {
		if err != nil {
			return collectorListing{}, err
		}
		all.add(info)
	}
	return all, nil
}

// add enters one object. One that is not ours, such as a console's folder marker,
// is passed over: Verify names it.
func (l *collectorListing) add(info objectstore.Info) {
	if name, ok := parseDamagedKey(info.Key); ok {
		if l.damaged == nil {
			l.damaged = index.PackSet{}
		}
		l.damaged[name] = struct{}{}
		return
	}
	number, kind, err := parseGenerationKey(info.Key)
	if err != nil {
		return
	}
	last := len(l.generations) - 1
	if last < 0 || l.generations[last].number != number {
		l.generations = append(l.generations, generation{number: number})
		last++
	}
	g := &l.generations[last]
	if kind == "final" {
		g.final, g.finalList = true, info
	} else {
		g.condemned = info
	}
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

// deadList is what a generation declares dead.
type deadList struct {
	names []packfile.Name
	kept  bool // the final list is damaged: see Kept
	err   error
}

// maxListReads run at a time. A machine that knows nothing reads hundreds of lists
// after a year of collections, one a day.
const maxListReads = 16

// readDeadLists reads dead(n) of generations, in their order.
func readDeadLists(ctx context.Context, repo Repo, generations []generation) []deadList {
	lists := make([]deadList, len(generations))
	var group errgroup.Group
	group.SetLimit(maxListReads)
	for i, g := range generations {
		group.Go(func() error {
			lists[i] = readDead(ctx, repo, g)
			return nil
		})
	}
	_ = group.Wait() // each list has its own error
	return lists
}

// readDead reads dead(n). A final list that appears between the listing and the
// read is a subset of the condemned list that is read instead: safe. So it is
// instead of a final list that is damaged: who avoids more packs than he has to stores
// some blobs again.
func readDead(ctx context.Context, repo Repo, g generation) deadList {
	if !g.final {
		names, err := readCondemned(ctx, repo, g.number)
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: %w", err, ErrCondemnedUnknown)
		}
		return deadList{names: names, err: err}
	}
	names, damaged := readFinal(ctx, repo, g.number)
	if !errors.Is(damaged, ErrDamaged) {
		return deadList{names: names, err: damaged}
	}
	names, err := readCondemned(ctx, repo, g.number)
	if isGone(err) || errors.Is(err, ErrDamaged) {
		err = damaged
	}
	return deadList{names, true, err}
}

func readCondemned(ctx context.Context, repo Repo, n uint64) ([]packfile.Name, error) {
	return readList(ctx, repo, n, "condemned", seal.Condemned)
}

func readFinal(ctx context.Context, repo Repo, n uint64) ([]packfile.Name, error) {
	return readList(ctx, repo, n, "final", seal.Final)
}

func readList(ctx context.Context, repo Repo, n uint64, kind string, unit seal.Unit) ([]packfile.Name, error) {
	key := generationKey(n, kind)
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
	return openObject(repo, key, unit, sealed)
}

// openObject opens what was read at a key.
func openObject(repo Repo, key string, unit seal.Unit, sealed []byte) ([]byte, error) {
	content, err := repo.Sealer.At(key).Open(nil, unit, sealed, seal.MaxContent)
	if err != nil {
		return nil, failed(key, err)
	}
	return content, nil
}

// sealFor seals the content of an object that readObject opens. It opens under no other
// key: a copy of a list, of a label or of a tombstone in another's place is damage.
func sealFor(repo Repo, key string, unit seal.Unit, content []byte) []byte {
	return repo.Sealer.At(key).Seal(nil, unit, content, content)
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
