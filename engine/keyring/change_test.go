package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"pgregory.net/rapid"
)

// plainKeys makes a repository with n plain keys: they cost nothing to open.
func plainKeys(n int) (*mem.Store, Material, []Info) {
	store, m := mem.New(), NewMaterial()
	holders := slices.Repeat([]Holder{NewPlain()}, n)
	return store, m, must(Create(context.Background(), store, repo, m, holders...))
}

func opens(store objectstore.Store, m Material) error {
	got, _, err := Unlock(context.Background(), store, repo, Credentials{Insecure: true})
	if err == nil && got != m {
		return errors.New("other material came out")
	}
	return err
}

func leftMarks(store objectstore.Store) (marks []string) {
	for info, err := range store.List(context.Background(), removing, "") {
		marks = append(marks, must(info, err).Key)
	}
	return marks
}

func TestAdd(t *testing.T) {
	store, m, keys := plainKeys(1)
	identity, holder := identityHolder()
	key, err := Add(t.Context(), store, repo, m, holder)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := List(t.Context(), store, repo); err != nil || len(list) != 2 || !slices.Contains(list, key) || !slices.Contains(list, keys[0]) {
		t.Errorf("List = %v, %v", list, err)
	}
	if got, opened, err := Unlock(t.Context(), store, repo, withIdentity(identity)); err != nil || got != m || opened != key {
		t.Errorf("Unlock = %v, %v, %v", got, opened, err)
	}
}

func TestAddRefusesOtherMaterial(t *testing.T) {
	store, _, keys := plainKeys(1)
	if _, err := Add(t.Context(), store, repo, NewMaterial(), NewPlain()); !errors.Is(err, ErrInvalid) {
		t.Errorf("Add = %v, want ErrInvalid", err)
	}
	if _, err := Rotate(t.Context(), store, repo, NewMaterial(), keys[0].ID, NewPlain()); !errors.Is(err, ErrInvalid) {
		t.Errorf("Rotate = %v, want ErrInvalid", err)
	}
	if list, err := List(t.Context(), store, repo); err != nil || !slices.Equal(list, keys) {
		t.Errorf("keys changed: %v, %v", list, err)
	}
}

// TestStoredKeyIsReadBack: a store that acknowledges what it did not keep gives
// nobody a key, and Rotate must not remove the old one.
func TestStoredKeyIsReadBack(t *testing.T) {
	for name, f := range map[string]fault.Fault{"dropped": fault.Drop(), "cut": fault.Truncate(90)} {
		inner, m, keys := plainKeys(1)
		store := fault.New(inner, fault.On(fault.Put, Prefix, f))
		if _, err := Add(t.Context(), store, repo, m, NewPlain()); err == nil {
			t.Errorf("%s: Add succeeded", name)
		}
		if _, err := Rotate(t.Context(), store, repo, m, keys[0].ID, NewPlain()); err == nil {
			t.Errorf("%s: Rotate succeeded", name)
		}
		if err := opens(inner, m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRemove(t *testing.T) {
	store, m, keys := plainKeys(3)
	for _, key := range keys[:2] {
		if err := Remove(t.Context(), store, repo, key.ID); err != nil {
			t.Fatal(err)
		}
		if err := Remove(t.Context(), store, repo, key.ID); !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("again: %v, want ErrNotExist", err)
		}
	}
	if err := Remove(t.Context(), store, repo, keys[2].ID); !errors.Is(err, ErrLastKey) {
		t.Errorf("last key: %v, want ErrLastKey", err)
	}
	if err := opens(store, m); err != nil {
		t.Error(err)
	}
	if marks := leftMarks(store); len(marks) > 0 {
		t.Errorf("marks are left: %q", marks)
	}
}

// TestOtherObjectsDoNotCountAsKeys: what cannot open this repository does not
// stand in for its last key.
func TestOtherObjectsDoNotCountAsKeys(t *testing.T) {
	store, m, keys := plainKeys(2)
	must(Create(t.Context(), store, other, NewMaterial(), NewPlain()))
	putRaw(t, store, ID{0xff}, []byte("garbage"))
	putRaw(t, store, keys[0].ID, []byte("garbage"))
	forged := must(wrap(repo, NewMaterial(), NewPlain(), keys[1].Created)) // other material
	putRaw(t, store, forged.ID, forged.Encode())
	if _, err := store.Put(t.Context(), Prefix+"README", bytes.NewReader(nil), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), store, repo, keys[1].ID); !errors.Is(err, ErrLastKey) {
		t.Fatalf("Remove = %v, want ErrLastKey", err)
	}
	if err := Remove(t.Context(), store, repo, keys[0].ID); err != nil { // the damaged one may go
		t.Errorf("damaged key: %v", err)
	}
	if got, _, err := UnlockKey(t.Context(), store, repo, keys[1].ID, Credentials{Insecure: true}); err != nil || got != m {
		t.Errorf("UnlockKey = %v, %v", got, err)
	}
}

func TestRotate(t *testing.T) {
	store, m, keys := plainKeys(1)
	identity, holder := identityHolder()
	key, err := Rotate(t.Context(), store, repo, m, keys[0].ID, holder)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := List(t.Context(), store, repo); err != nil || !slices.Equal(list, []Info{key}) {
		t.Errorf("List = %v, %v, want %v", list, err, key)
	}
	if got, _, err := Unlock(t.Context(), store, repo, withIdentity(identity)); err != nil || got != m {
		t.Errorf("Unlock = %v, %v", got, err)
	}
	if _, err := Rotate(t.Context(), store, repo, m, keys[0].ID, holder); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("rotate a key that is gone: %v, want ErrNotExist", err)
	}
	if _, err := Rotate(t.Context(), store, other, m, key.ID, holder); !errors.Is(err, ErrInvalid) {
		t.Errorf("rotate a key of another repository: %v, want ErrInvalid", err)
	}
}

// TestRotateSweep lets each store call of a rotation go wrong in turn. At every
// point a key opens, and doing it again ends well.
func TestRotateSweep(t *testing.T) {
	for name, f := range map[string]func(n int) fault.Injector{
		"one call fails":       func(n int) fault.Injector { return fault.FailNth(n, fault.ErrInjected) },
		"one answer is lost":   fault.LoseAckNth,
		"killed before a call": func(n int) fault.Injector { return fault.FailFrom(n, fault.ErrInjected) },
		"killed after a call": func(n int) fault.Injector {
			return func(op fault.Op) fault.Fault {
				if op.N == n {
					return fault.LoseAck(fault.ErrInjected)
				}
				return fault.FailFrom(n, fault.ErrInjected)(op)
			}
		},
		"one call is done twice": func(n int) fault.Injector { return fault.Nth(n, fault.Repeat()) },
	} {
		t.Run(name, func(t *testing.T) { sweepRotate(t, f) })
	}
}

func sweepRotate(t *testing.T, inject func(n int) fault.Injector) {
	for n := 1; ; n++ {
		inner, m, keys := plainKeys(1)
		store := fault.New(inner, inject(n))
		_, err := Rotate(t.Context(), store, repo, m, keys[0].ID, NewPlain())
		if err := opens(inner, m); err != nil {
			t.Fatalf("call %d: no key opens: %v", n, err)
		}
		if store.Calls() < n {
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			if n < 8 {
				t.Fatalf("only %d calls were swept", n)
			}
			return
		}
		if list, _ := List(t.Context(), inner, repo); err == nil && (len(list) != 1 || list[0] == keys[0]) {
			t.Fatalf("call %d: success, and keys %v", n, list)
		}
		if err != nil && !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("call %d: %v, want ErrInjected", n, err)
		}
		finish(t, inner, m, keys[0].ID)
	}
}

// finish rotates again after a failure: the old key goes if it is still there.
func finish(t *testing.T, store objectstore.Store, m Material, old ID) {
	t.Helper()
	_, err := Rotate(t.Context(), store, repo, m, old, NewPlain())
	if err != nil && !errors.Is(err, objectstore.ErrNotExist) {
		t.Fatalf("rotating again: %v", err)
	}
	if _, err := store.Stat(t.Context(), objectName(old)); !errors.Is(err, objectstore.ErrNotExist) {
		t.Fatalf("the old key is still there: %v", err)
	}
	if err := opens(store, m); err != nil {
		t.Fatalf("after rotating again: %v", err)
	}
}

// TestAbandonedRemovalDoesNotCountAsAKey: the mark of a remover that died may
// be followed by its delete, as far as anyone else can tell.
func TestAbandonedRemovalDoesNotCountAsAKey(t *testing.T) {
	inner, m, keys := plainKeys(2)
	dying := fault.New(inner, fault.On(fault.Delete, Prefix, fault.Fail(fault.ErrInjected)))
	if err := Remove(t.Context(), dying, repo, keys[0].ID); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	err := Remove(t.Context(), inner, repo, keys[1].ID)
	if !errors.Is(err, ErrLastKey) || !strings.Contains(err.Error(), keys[0].ID.String()) {
		t.Errorf("Remove = %v, want ErrLastKey that names %v", err, keys[0].ID)
	}
	if err := opens(inner, m); err != nil {
		t.Error(err)
	}
	if err := Remove(t.Context(), inner, repo, keys[0].ID); err != nil {
		t.Errorf("finishing the removal: %v", err)
	}
	if marks := leftMarks(inner); len(marks) > 0 {
		t.Errorf("marks are left: %q", marks)
	}
}

// scheduled is a store whose calls wait until they are granted, one by one.
type scheduled struct {
	objectstore.Store
	grant, done chan struct{}
}

func (s scheduled) call(f func()) {
	<-s.grant
	f()
	s.done <- struct{}{}
}

func (s scheduled) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (info objectstore.Info, err error) {
	s.call(func() { info, err = s.Store.Put(ctx, key, body, opts) })
	return info, err
}

func (s scheduled) Stat(ctx context.Context, key string) (info objectstore.Info, err error) {
	s.call(func() { info, err = s.Store.Stat(ctx, key) })
	return info, err
}

func (s scheduled) Delete(ctx context.Context, key string) (err error) {
	s.call(func() { err = s.Store.Delete(ctx, key) })
	return err
}

func (s scheduled) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		var infos []objectstore.Info
		var err error
		s.call(func() {
			for info, failure := range s.Store.List(ctx, prefix, after) {
				infos, err = append(infos, info), failure
			}
		})
		for i, info := range infos {
			failed := err != nil && i == len(infos)-1 // an error comes last
			if failed && !yield(info, err) || !failed && !yield(info, nil) {
				return
			}
		}
	}
}

// remover is a call of Remove whose store calls are granted one by one. (Reads
// of keys pass freely: key objects never change, and one that is gone counts
// for nobody.)
type remover struct {
	store    scheduled
	finished chan struct{}
	err      error
}

func startRemover(ctx context.Context, inner objectstore.Store, id ID) *remover {
	r := &remover{store: scheduled{inner, make(chan struct{}), make(chan struct{})}, finished: make(chan struct{})}
	go func() {
		defer close(r.finished)
		r.err = Remove(ctx, r.store, repo, id)
	}()
	return r
}

// step lets the next call through. It does nothing once the remover is done.
func (r *remover) step() {
	select {
	case r.store.grant <- struct{}{}:
		<-r.store.done
	case <-r.finished:
	}
}

func (r *remover) end() {
	for {
		select {
		case r.store.grant <- struct{}{}:
			<-r.store.done
		case <-r.finished:
			return
		}
	}
}

// removeCalls is how many calls a removal makes, reads of keys left out: stat,
// put mark, list marks, list keys, delete key, delete mark.
const removeCalls = 6

// TestTwoRemoversLeaveAKey removes two keys at a time in every possible order
// of their calls.
func TestTwoRemoversLeaveAKey(t *testing.T) {
	refused := 0
	for schedule := range uint(1) << (2 * removeCalls) {
		if bits.OnesCount(schedule) != removeCalls {
			continue
		}
		store, m, keys := plainKeys(2)
		a, b := startRemover(t.Context(), store, keys[0].ID), startRemover(t.Context(), store, keys[1].ID)
		for i := range 2 * removeCalls {
			if schedule>>i&1 == 0 {
				a.step()
			} else {
				b.step()
			}
		}
		a.end()
		b.end()
		if err := opens(store, m); err != nil {
			t.Fatalf("schedule %b: %v and %v leave no key: %v", schedule, a.err, b.err, err)
		}
		for _, err := range []error{a.err, b.err} {
			if err != nil && !errors.Is(err, ErrLastKey) {
				t.Fatalf("schedule %b: %v", schedule, err)
			}
		}
		if marks := leftMarks(store); len(marks) > 0 {
			t.Fatalf("schedule %b: marks are left: %q", schedule, marks)
		}
		if a.err != nil && b.err != nil {
			refused++
		}
	}
	if refused == 0 { // the interesting orders are among them
		t.Error("in no order did both removers see each other")
	}
}

// TestGivingUpLeavesTheMarksOfOthers: one of two removers of a key gives up
// while the other one goes on, whose mark must stay.
func TestGivingUpLeavesTheMarksOfOthers(t *testing.T) {
	store, m, keys := plainKeys(2)
	steps := func(r *remover, n int) {
		for range n {
			r.step()
		}
	}
	b := startRemover(t.Context(), store, keys[1].ID)
	steps(b, 2) // has put its mark
	givesUp := startRemover(t.Context(), store, keys[0].ID)
	goesOn := startRemover(t.Context(), store, keys[0].ID)
	steps(givesUp, 2)
	steps(goesOn, 2)
	steps(givesUp, 1) // has seen all three marks
	b.end()           // has seen them as well, and gave up
	steps(goesOn, 2)  // has seen that no mark names the other key; what comes next is its delete
	givesUp.end()
	again := startRemover(t.Context(), store, keys[1].ID)
	again.end()
	goesOn.end()
	if !errors.Is(b.err, ErrLastKey) || !errors.Is(givesUp.err, ErrLastKey) {
		t.Errorf("%v and %v, want ErrLastKey twice", b.err, givesUp.err)
	}
	if err := opens(store, m); err != nil {
		t.Errorf("%v and %v leave no key: %v", goesOn.err, again.err, err)
	}
}

// TestRemoversLeaveAKey runs up to five removers on up to four keys, some on
// the same key, in any order; some die.
func TestRemoversLeaveAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "keys")
		store, m, keys := plainKeys(n)
		victims := rapid.SliceOfN(rapid.IntRange(0, n-1), 2, 5).Draw(t, "victims")
		ctx, kill := context.WithCancel(context.Background())
		defer kill()
		var removers []*remover
		for _, v := range victims {
			removers = append(removers, startRemover(ctx, store, keys[v].ID))
		}
		for _, next := range rapid.SliceOfN(rapid.IntRange(0, len(removers)-1), 0, 40).Draw(t, "schedule") {
			removers[next].step()
		}
		if rapid.Bool().Draw(t, "killed") {
			kill() // the memory store refuses all that follows
		}
		for _, r := range removers {
			r.end()
		}
		if err := opens(store, m); err != nil {
			t.Fatalf("no key opens: %v", err)
		}
	})
}

func ExampleInfo_String() {
	fmt.Println(Info{Kind: Passphrase, Comment: "ops"})
	fmt.Println(Info{Kind: X25519, Recipient: "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"})
	fmt.Println(Info{Kind: Plain})
	// Output:
	// passphrase "ops"
	// age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p
	// plain key (not encrypted)
}
