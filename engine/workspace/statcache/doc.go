// Package statcache remembers what a walk of one directory tree found, so that
// the next one need not read what did not change.
//
// A [Cache] is a small Pebble database, one for each source, so that snapshots
// of different workspaces never wait for each other. It holds the entries of
// every directory: for each name what stat(2) said and what became of it.
// An entry counts only while inode, ctime, mtime, size, mode and owner are what
// they were. Losing the cache costs time, never correctness: when in doubt it is
// thrown away.
//
// # What may be believed without asking
//
// A directory's record holds the id of its tree node, and that node names every
// blob of the record. The [Base] of the cache is the last published snapshot,
// with the node of its root. A walk that knows the base to be complete follows
// node ids down from there: a record whose node the parent's record names is
// reached by the base, and so is everything in it. Records that an interrupted
// or failed session left behind are not reached that way; they save reading,
// but each of their blobs has to be confirmed. No record has to be removed for
// this to hold.
//
// Nothing is synced. Pebble's checksums find what a power failure tears, and a
// base from before the last boot is not believed, since writes may be missing
// in between.
package statcache
