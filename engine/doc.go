// Package engine is the public API of snapctl: it saves the workspace of a
// sandbox as an immutable, deduplicated snapshot, and brings it back anywhere.
//
// [Init] makes a repository in an object store and [Open] opens one. A
// [Repository] takes a [Repository.Snapshot] of a directory, and restores one
// ([Repository.Restore]) into another; [Repository.Fork] gives an old root a new
// snapshot without reading any data, [Repository.Diff] compares,
// [Repository.Check] verifies. Most programs need no more than these.
//
//	walk, chunk, look up, pack, put, publish      Snapshot
//	plan, get, open, verify, write                Restore
//
// Options are structs whose zero values work. Errors are *[Error] values that
// wrap the sentinels of this package; an operation that is done except for some
// paths returns its result together with ErrPartial. The package never prints,
// exits or reads the environment: what happens meanwhile is reported to
// [Events].
//
// A Repository is safe for concurrent use. Any number of processes on any
// number of machines can use one repository at the same time. The local state
// (index and stat caches) belongs to one process at a time; a second one works
// without it, more slowly.
package engine
