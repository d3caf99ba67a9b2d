// Package restore writes a snapshot into a directory.
//
// [Run] restores, [Plan] says what Run would do. Both walk the tree of the
// snapshot, compare it with what is in the target, and touch only what
// differs; running twice changes nothing.
//
// # Order of work
//
//  1. Walk the tree: make directories (mode 0700), compare files, collect the
//     blobs of those that differ into batches, in the order of the tree.
//  2. For each batch, while the walk goes on: read every frame once and write
//     its blobs to the files that want them.
//  3. Make hard links.
//  4. Walk again: make symlinks and special files, delete what is extra, then
//     set each directory's owner, xattrs, mode and times, from the bottom up.
//
// Deleting comes last, so that a restore that fails has destroyed nothing that
// was not replaced. It needs room for both the old and the new.
//
// # What a crash leaves
//
// A target that did not exist is built in a private directory next to it,
// ".NAME.snapctl-partial-ROOT", and renamed at the very end. The next restore of
// the same snapshot goes on in there. A target that exists is restored in
// place, with the file ".snapctl-restore-incomplete" in its root until the end.
// New content gets a name that starts with ".snapctl-tmp-" and is renamed;
// what a killed run leaves of those is removed by the next one. Both names are
// reserved: an entry of a snapshot's root that is called like the marker is
// reported as skipped.
//
// # Safety
//
// The snapshot and the target may both be hostile. Everything happens beneath
// one directory descriptor, by openat2(2) with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS (before Linux 5.6 by openat(2), one component at a time),
// so no symlink is ever followed, nor another filesystem entered. Names are
// checked when nodes are decoded. Owners, xattrs, modes and times are set by
// descriptor, in that order; no file that has a second name outside of its
// link group is changed in place, it is replaced. Hard links are only made to
// the inode that this run wrote or compared. Setuid and setgid files,
// capabilities and devices need to be asked for. [Limits] bound entries, depth
// and bytes.
//
// # Memory
//
// Two nodes and two batches of at most 32,768 blobs (about 20 MB each) at a
// time, 250 bytes for each directory that waits to be entered, 40 bytes for
// each hard link beyond the first name, and with Delete 8 bytes for each name of
// the directory at hand. Nothing else grows with the tree.
package restore
