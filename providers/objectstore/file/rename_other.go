//go:build !linux

package file

import "golang.org/x/sys/unix"

// renameNoReplace is not available: without hard links there is no
// put-if-absent here.
func renameNoReplace(int, string, int, string) error { return unix.ENOTSUP }
