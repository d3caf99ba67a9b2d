package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/restore"
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
		{&usageError{err: errors.New("what"), hint: "this"}, 64, "this"},
		{&hinted{engine.ErrDamaged, "that"}, 13, "that"},
		{context.Canceled, 130, ""},
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
