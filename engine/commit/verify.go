package commit

import (
	"context"
	"fmt"
	"iter"

	"github.com/snapctl/snapctl/packfile/seal"
)

// Verify opens every object of the protocol but the snapshots themselves, their
// tombstones included, and yields those that cannot be used, by key. A failure to list
// is yielded under the prefix, last.
func Verify(ctx context.Context, repo Repo) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if verifyPending(ctx, repo, yield) && verifyLabels(ctx, repo, yield) && verifyTombstones(ctx, repo, yield) {
			verifyGenerations(ctx, repo, yield)
		}
	}
}

func verifyPending(ctx context.Context, repo Repo, yield func(string, error) bool) bool {
	for info, err := range repo.Store.List(ctx, pendingPrefix, "") {
		if err != nil {
			return yield(pendingPrefix, err)
		}
		content, err := readObject(ctx, repo, info.Key, seal.Pending)
		if err == nil {
			_, err = DecodeRecord(content)
		}
		if err != nil && !isGone(err) && !yield(info.Key, err) {
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
		content, err := readObject(ctx, repo, info.Key, seal.Label)
		if err == nil {
			_, err = DecodeLabelChange(content)
		}
		if err != nil && !isGone(err) && !yield(info.Key, err) {
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
		if _, err := parseSnapshotKey(info.Key); err != nil && !yield(info.Key, err) {
			return false
		}
		if info.Size != tombstoneSize {
			continue
		}
		if _, err := readObject(ctx, repo, info.Key, seal.Tombstone); err != nil && !isGone(err) && !yield(info.Key, err) {
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
	_, kind, err := parseGenerationKey(key)
	if err != nil {
		return err
	}
	unit := seal.Condemned
	if kind == "final" {
		unit = seal.Final
	}
	content, err := readObject(ctx, repo, key, unit)
	if err != nil {
		return err
	}
	if _, err := DecodeNames(content); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
