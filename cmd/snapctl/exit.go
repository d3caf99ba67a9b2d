package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/restore"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// The exit codes. They are an interface: their meaning never changes, and an
// unknown code is a failure.
const (
	exitDone         = 0
	exitFailed       = 1
	exitIncomplete   = 3
	exitNoRepository = 10
	exitBusy         = 11
	exitWrongKey     = 12
	exitDamaged      = 13
	exitUsage        = 64
	exitInterrupted  = 130
)

var exitMeanings = map[int]string{
	exitDone:         "done",
	exitFailed:       "failed",
	exitIncomplete:   "done but incomplete; what is missing is named",
	exitNoRepository: "there is no repository at the place",
	exitBusy:         "another process holds what is needed",
	exitWrongKey:     "no given key opens the repository",
	exitDamaged:      "damage was found",
	exitUsage:        "the command line makes no sense",
	exitInterrupted:  "interrupted by a signal",
}

// usageError says that the command line cannot mean anything.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// hinted is an error that knows what to do next.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// failure is an error as the user gets it.
type failure struct {
	code    int
	message string
	hint    string // empty if there is nothing to add
}

const hintDamaged = "run `snapctl check --read-data` to see what is affected; a lost index comes back by `snapctl repair index`"

// classes are tried in order: the first that matches decides.
var classes = []struct {
	is   error
	code int
	hint string
}{
	{context.Canceled, exitInterrupted, ""},
	{engine.ErrPartial, exitIncomplete, ""}, // what is missing has been named by then
	{engine.ErrNoRepository, exitNoRepository, "make one with `snapctl init`, or name another with --repo or " + envRepo},
	{engine.ErrExists, exitFailed, "the repository is ready to use, as it is"},
	{restore.ErrBusy, exitBusy, "wait for the other restore to end"},
	{restore.ErrConflict, exitFailed, "move the directory away, or restore into a new one"},
	{restore.ErrMount, exitFailed, "unmount it, or restore into a new directory"},
	{restore.ErrNoSpace, exitFailed, "make room, or restore less with --path"},
	{engine.ErrBusy, exitBusy, "wait for the other process to end, or use another --state-dir"},
	{engine.ErrWrongKey, exitWrongKey, "give the key with --identity, --passphrase-file or --passphrase-command, or by " + envIdentity + " or " + envPassphrase},
	{engine.ErrNewerVersion, exitFailed, "update snapctl: a newer program wrote this repository"},
	{engine.ErrDamaged, exitDamaged, hintDamaged},
	{engine.ErrAmbiguous, exitFailed, "write more digits of the snapshot id; `snapctl list` shows them"},
	{engine.ErrNoEntry, exitFailed, "`snapctl ls -R SNAP` shows what is in a snapshot"},
	{engine.ErrNotFound, exitFailed, "`snapctl list` shows the snapshots"},
	{engine.ErrRetry, exitFailed, "run the command again"},
	{objectstore.ErrNoSpace, exitFailed, "make room where the repository is"},
	{objectstore.ErrDenied, exitFailed, "run as a user who may read and write the repository"},
	{fs.ErrPermission, exitFailed, "run as a user who may read and write there"},
}

// explain turns an error into a code, a message and a hint.
func explain(err error) failure {
	f := failure{code: exitFailed, message: strings.ReplaceAll(err.Error(), "\n", "; ")} // joined errors are lines
	var usage *usageError
	if errors.As(err, &usage) {
		return failure{code: exitUsage, message: err.Error(), hint: usage.hint}
	}
	for _, class := range classes {
		if errors.Is(err, class.is) {
			f.code, f.hint = class.code, class.hint
			break
		}
	}
	if f.code == exitIncomplete && errors.Is(err, engine.ErrDamaged) {
		f.hint = hintDamaged
	}
	var own *hinted
	if errors.As(err, &own) {
		f.hint = own.hint
	}
	return f
}
