// Package manifest is the codec of everything that describes a workspace: tree
// nodes and snapshot manifests.
//
// A directory is a list of [Entry] values sorted by name, in one or more tree
// nodes. A [DirWriter] takes the entries in order and cuts the list where the
// content says so, under index nodes, so that one changed entry among a million
// rewrites O(log n) nodes. [ReadDir] and [Lookup] go the other way. The chunk
// list of a very large file and the hard links of a snapshot are lists of the
// same shape ([ContentWriter], [LinkWriter]). A [Manifest] describes one
// snapshot and names its root.
//
// Nothing here depends on the host: no inode, device number or ctime is
// stored, so a snapshot that is restored anywhere and taken again has the same
// root. Whatever decodes re-encodes to identical bytes.
package manifest

import "github.com/snapctl/snapctl/packfile/wire"

// ErrDamaged says that bytes are not the node or manifest they ought to be.
var ErrDamaged = wire.ErrDamaged
