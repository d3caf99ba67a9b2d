package file

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesystemNames(t *testing.T) {
	for magic, want := range map[uint32]struct {
		name   string
		cached bool
	}{
		unix.NFS_SUPER_MAGIC:   {"nfs", true},
		unix.SMB2_SUPER_MAGIC:  {"smb2", true},
		unix.CIFS_SUPER_MAGIC:  {"cifs", true},
		unix.FUSE_SUPER_MAGIC:  {"fuse", true},
		unix.V9FS_MAGIC:        {"9p", true},
		unix.CEPH_SUPER_MAGIC:  {"ceph", true},
		unix.EXT4_SUPER_MAGIC:  {"ext4", false},
		unix.XFS_SUPER_MAGIC:   {"xfs", false},
		unix.BTRFS_SUPER_MAGIC: {"btrfs", false},
		0x12345678:             {"0x12345678", false},
	} {
		if name, cached := filesystemName(magic); name != want.name || cached != want.cached {
			t.Errorf("%#x: %s, %v, want %+v", magic, name, cached, want)
		}
	}
}
