// Package workspace reads a tree of files into blobs.
//
// [Walk] lists directories, compares what it finds with a cache of the last
// walk, reads what changed, cuts it (package chunk), encodes directories
// (package manifest) and hands every blob to a [Writer] of its consumer. Nothing
// is left out unless a rule says so; what could not be read, changed while it
// was read or was left out is named in the [Result].
//
// The tree may be hostile and may change under the walk. Every step goes from
// the descriptor of a directory to one name in it, without following symbolic
// links, and what was opened is compared with what was listed: a directory that
// is swapped for a link never leads outside. FIFOs, sockets and devices are
// never opened on purpose, and reading ends at the size a file had when it was
// opened.
//
// # How the work is divided
//
// The unit of work is a directory. One worker lists it, reads its files in the
// order of their names and leaves its subdirectories on the worker's own stack;
// a worker without work takes the oldest directory from another stack. So each
// worker goes through subtrees depth first and its Writer sees neighbours
// together, and what waits is bounded by depth times fan-out. A directory is
// encoded by whoever finishes its last child. Three things are divided further:
// a huge directory is taken in batches of some thousand names, many files to
// read in one directory become runs, and the chunks of a large file are put by
// all workers while one cuts.
package workspace
