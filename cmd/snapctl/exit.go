package main

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"syscall"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/restore"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/s3"
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

// hintsDamaged say what helps, by the key of an object that the message names. Paths of
// workspaces and of repositories look alike only up to the id.
var hintsDamaged = []struct {
	object *regexp.Regexp
	hint   string
}{
	{regexp.MustCompile(`\bpending/[0-9a-f]{32}`), "`snapctl repair sessions` lists attempts to publish that cannot be read"},
	{regexp.MustCompile(`\bsnapshots/[0-9a-f]{64}/`), "`snapctl repair snapshots --dry-run` says what is left of them"},
	{regexp.MustCompile(`\blabels/[0-9a-f]{64}/`), "`snapctl repair snapshots --dry-run` lists labels that cannot be read"},
	{regexp.MustCompile(`\bgc/[0-9]{10}/`), hintLists},
	{regexp.MustCompile(`\bforgotten/[0-9a-f]{64}/`), "put it back from a copy; `snapctl gc --undo-window 0` gives the undo up"},
	{regexp.MustCompile(`\bopen repository: config: |\bkey [0-9a-f]{32}: |\brepository [0-9a-f]{32} has no key\b`), "put it back from a copy; docs/recovery.md says how"},
}

// hintLists is for lists of a collection neither of which can be read.
const hintLists = "get the objects of that folder below gc/ back from a copy of the store, or make a repository with `snapctl init --like` and push all to it; docs/recovery.md"

// hintOfDamage is the hint for a message about damage.
func hintOfDamage(message string) string {
	for _, h := range hintsDamaged {
		if h.object.MatchString(message) {
			return h.hint
		}
	}
	return hintDamaged
}

const hintDamaged = "run `snapctl check --read-data` to see what is affected; a lost index comes back by `snapctl repair index`"

// classes are tried in order: the first that matches decides.
var classes = []struct {
	is   error
	code int
	hint string
}{
	{context.Canceled, exitInterrupted, "nothing has to be cleaned up; run the command again, and it goes on where it ended"},
	{engine.ErrPartial, exitIncomplete, ""}, // what is missing has been named by then
	{engine.ErrConfigGone, exitNoRepository, "put config back from a copy; docs/recovery.md says how"},
	{engine.ErrNoRepository, exitNoRepository, "make one with `snapctl init`, or name another with --repo or " + envRepo},
	{engine.ErrExists, exitFailed, "`snapctl list` says whether it can be used as it is"},
	{restore.ErrBusy, exitBusy, "wait for the other restore to end"},
	{restore.ErrConflict, exitFailed, "move the directory away, or restore into a new one"},
	{restore.ErrMount, exitFailed, "unmount it, or restore into a new directory"},
	{restore.ErrNoSpace, exitFailed, "make room, or restore less with --path"},
	{engine.ErrBusy, exitBusy, "wait for the other process to end, or use another --state-dir"},
	{engine.ErrWrongKey, exitWrongKey, "give the key with --identity, --passphrase-file or --passphrase-command, or by " + envIdentity + " or " + envPassphrase},
	{engine.ErrNewerVersion, exitFailed, "update snapctl: a newer program wrote this repository"},
	{engine.ErrRetry, exitFailed, "run the command again"}, // before damage: what seems lost was taken by a collection
	{gc.ErrChanging, exitFailed, "run the command again"},
	{gc.ErrLost, exitDamaged, ""}, // its message has the next steps
	{engine.ErrCondemnedUnknown, exitDamaged, "run `snapctl gc`: it settles that none of them is"},
	{engine.ErrDamaged, exitDamaged, hintDamaged},
	{engine.ErrAmbiguous, exitFailed, "write more digits of the snapshot id; `snapctl list` shows them"},
	{engine.ErrNoEntry, exitFailed, "`snapctl ls -R SNAP` shows what is in a snapshot"},
	{engine.ErrNotFound, exitFailed, "`snapctl list` shows the snapshots"},
	{objectstore.ErrNoSpace, exitFailed, "make room where the repository is"},
	{syscall.ENOSPC, exitFailed, "make room there; for local state, --state-dir names another place"},
	{syscall.EROFS, exitFailed, "mount it for writing, or name another place"},
	{fs.ErrPermission, exitFailed, "run as a user who may read and write there"},
	{objectstore.ErrDenied, exitFailed, "give credentials that may do this, by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile; docs/object-stores.md has the permissions"},
	{objectstore.ErrThrottled, exitFailed, "run the command again later; what was stored is used then"},
	{objectstore.ErrUnavailable, exitFailed, "check the endpoint and the network, and run the command again; what was stored is used then"},
}

// explain turns an error into a code, a message and a hint.
func explain(err error) failure {
	f := failure{code: exitFailed, message: oneLine(err.Error())}
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
	if f.code == exitDamaged && f.hint == hintDamaged {
		f.hint = hintOfDamage(f.message)
	}
	if f.code == exitWrongKey && errors.Is(err, engine.ErrDamaged) {
		f.hint = "the damaged key may be the one: put it back from a copy, docs/recovery.md says how; or " + f.hint
	}
	if f.code == exitIncomplete && errors.Is(err, engine.ErrDamaged) {
		f.hint = hintDamaged
	}
	if s3.Advised(err) { // in its message, and better
		f.hint = ""
	}
	var own *hinted
	if errors.As(err, &own) {
		f.hint = own.hint
	}
	return f
}
