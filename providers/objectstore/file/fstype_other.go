//go:build !linux

package file

// FilesystemType is known on Linux only. Elsewhere every directory counts as
// one whose listings may be cached.
func (s *Store) FilesystemType() (name string, cachedListings bool) { return "unknown", true }
