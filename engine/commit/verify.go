package commit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// Verify opens every object of the protocol but the snapshots themselves, their
// tombstones included, and yields those that cannot be used, by key. A failure to list
// is yielded under the prefix, last.
func Verify(ctx context.Context, repo Repo) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if verifyPending(ctx, repo, yield) && verifyLabels(ctx, repo, yield) && verifyTombstones(ctx, repo, yield) && verifyForgotten(ctx, repo, yield) {
			verifyGenerations(ctx, repo, yield)
		}
	}
}

func verifyPending(ctx context.Context, repo Repo, yield func(string, error) bool) bool {
	for info, err := range repo.Store.List(ctx, pendingPrefix, "") {
		if err != nil {
			return yield(pendingPrefix, err)
		}
		session := Session(strings.TrimPrefix(info.Key, pendingPrefix))
		if session.valid() {
			_, err = LoadPending(ctx, repo, Pending{Session: session})
		} else {
			err = fmt.Errorf("%s: %w", info.Key, ErrForeign)
		}
		if err != nil && !errors.Is(err, ErrNotFound) && !yield(info.Key, err) {
			return false
		}
	}
	return true
}

func verifyLabels(ctx context.Context, repo Repo, yield func(string, error) bool) bool {
	for info, err := range repo.Store.List(ctx, labelPrefix, "") {
		if err != nil {
			return yield(labelPrefix, err)
		}
		if _, _, err = parseLabelKey(info.Key); err == nil {
			_, err = LoadLabelChange(ctx, repo, info.Key)
		}
		if err != nil && !errors.Is(err, ErrNotFound) && !yield(info.Key, err) {
			return false
		}
	}
	return true
}

// verifyTombstones finds objects that only look like tombstones: snapshots that
// were cut off. And objects that have no name of ours.
func verifyTombstones(ctx context.Context, repo Repo, yield func(string, error) bool) bool {
	for info, err := range repo.Store.List(ctx, snapshotPrefix, "") {
		if err != nil {
			return yield(snapshotPrefix, err)
		}
		if _, err := parseRef(snapshotPrefix, info.Key); err != nil {
			if !yield(info.Key, err) {
				return false
			}
			continue
		}
		if stateOf(info.Size) == StatePublished {
			continue
		}
		if _, err := readTombstone(ctx, repo, info.Key); err != nil && !isGone(err) && !yield(info.Key, err) {
			return false
		}
	}
	return true
}

// verifyForgotten opens what an undo would publish again.
func verifyForgotten(ctx context.Context, repo Repo, yield func(string, error) bool) bool {
	for info, err := range repo.Store.List(ctx, forgottenPrefix, "") {
		if err != nil {
			return yield(forgottenPrefix, err)
		}
		ref, err := parseRef(forgottenPrefix, info.Key)
		if err == nil {
			_, err = LoadForgotten(ctx, repo, ref)
		}
		if err != nil && !errors.Is(err, ErrNotFound) && !yield(info.Key, err) {
			return false
		}
	}
	return true
}

func verifyGenerations(ctx context.Context, repo Repo, yield func(string, error) bool) {
	for info, err := range repo.Store.List(ctx, gcPrefix, "") {
		if err != nil {
			yield(gcPrefix, err)
			return
		}
		if err := verifyGeneration(ctx, repo, info.Key); err != nil && !yield(info.Key, err) {
			return
		}
	}
}

func verifyGeneration(ctx context.Context, repo Repo, key string) error {
	if _, ok := parseDamagedKey(key); ok {
		return nil
	}
	n, kind, err := parseGenerationKey(key)
	if err != nil {
		return err
	}
	read, other := readFinal, readCondemned
	if kind == "condemned" {
		read, other = readCondemned, readFinal
	}
	if _, err = read(ctx, repo, n); isGone(err) || !errors.Is(err, ErrDamaged) {
		return err
	}
	if _, otherErr := other(ctx, repo, n); otherErr == nil {
		return fmt.Errorf("%w: %w", err, ErrUnneeded)
	}
	return err
}
