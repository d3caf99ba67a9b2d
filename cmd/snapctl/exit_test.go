package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/restore"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/providers/objectstore"
)

func TestExplain(t *testing.T) {
	wrapped := func(err error) error {
		return fmt.Errorf("/repo: %w", &engine.Error{Op: "open", Object: "repository", Err: fmt.Errorf("because: %w", err)})
	}
	for _, test := range []struct {
		err  error
		code int
		hint string // a part of it
	}{
		{errors.New("anything"), 1, ""},
		{engine.ErrPartial, 3, ""},
		{fmt.Errorf("%w: %w", engine.ErrPartial, engine.ErrDamaged), 3, "snapctl check"},
		{engine.ErrNoRepository, 10, "snapctl init"},
		{engine.ErrBusy, 11, "wait"},
		{restore.ErrBusy, 11, "wait"},
		{engine.ErrWrongKey, 12, "--passphrase-file"},
		{engine.ErrDamaged, 13, "snapctl check"},
		{engine.ErrNewerVersion, 1, "update snapctl"},
		{&config.VersionError{Object: "repository", Version: 9}, 1, "update snapctl"},
		{engine.ErrNotFound, 1, "snapctl list"},
		{engine.ErrNoEntry, 1, "snapctl ls"},
		{engine.ErrAmbiguous, 1, "more digits"},
		{engine.ErrRetry, 1, "again"},
		{gc.ErrChanging, 1, "again"},
		{fmt.Errorf("snapshots/%064x/%032x: %w", 1, 2, engine.ErrDamaged), 13, "repair snapshots"},
		{fmt.Errorf("labels/%064x/0000000001: %w", 1, engine.ErrDamaged), 13, "repair snapshots"},
		{fmt.Errorf("pending/%032x: %w", 1, engine.ErrDamaged), 13, "repair sessions"},
		{fmt.Errorf("gc/0000000001/final: %w", engine.ErrDamaged), 13, "a copy of the store"},
		{fmt.Errorf("forgotten/%064x/%032x: %w", 1, 2, engine.ErrDamaged), 13, "--undo-window 0"},
		{fmt.Errorf("no key; key %032x: %w", 1, engine.ErrDamaged), 13, "put it back"},
		{fmt.Errorf("repository %032x has no key: %w", 1, engine.ErrDamaged), 13, "put it back"},
		{fmt.Errorf("/srv/snapshots/repo: cat gc/main.go: %w", engine.ErrDamaged), 13, "snapctl check --read-data"},
		{engine.ErrCondemnedUnknown, 13, "snapctl gc"},
		{gc.ErrLost, 13, ""},
		{&usageError{err: errors.New("what"), hint: "this"}, 64, "this"},
		{&hinted{engine.ErrDamaged, "that"}, 13, "that"},
		{errInterrupted, 130, "again"},
		{context.Canceled, 130, "again"},
		{&objectstore.Error{Op: "put", Key: "k", Err: fmt.Errorf("%w: %w", objectstore.ErrDenied, syscall.EACCES)}, 1, "run as a user"},
		{&objectstore.Error{Op: "put", Key: "k", Err: fmt.Errorf("%w: %w", objectstore.ErrDenied, syscall.EROFS)}, 1, "mount"},
		{&objectstore.Error{Op: "put", Key: "k", Err: objectstore.ErrDenied}, 1, "AWS_ACCESS_KEY_ID"},
		{objectstore.ErrNoSpace, 1, "where the repository is"},
		{syscall.ENOSPC, 1, "--state-dir"},
		{objectstore.ErrUnavailable, 1, "endpoint"},
		{objectstore.ErrThrottled, 1, "later"},
	} {
		got := explain(wrapped(test.err))
		if got.code != test.code || !strings.Contains(got.hint, test.hint) || (test.hint == "") != (got.hint == "") {
			t.Errorf("explain(%v) = %d, hint %q; want %d, %q", test.err, got.code, got.hint, test.code, test.hint)
		}
		if exitMeanings[got.code] == "" {
			t.Errorf("exit code %d has no meaning", got.code)
		}
	}
}
