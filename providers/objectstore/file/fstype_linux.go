package file

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// remote names the file systems whose clients may answer a listing from a
// cache, by the magic number that statfs reports (linux/magic.h and the
// sources of the respective file system). FUSE includes virtiofs, sshfs and
// the object-store mounts.
var remote = map[uint32]string{
	0x00006969: "nfs",
	0x0000517b: "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x65735546: "fuse",
	0x01021997: "9p",
	0x00c36400: "ceph",
	0x0bd00bd0: "lustre",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x0000564c: "ncp",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0x20030528: "orangefs",
	0xaad7aaea: "panfs",
	0x786f4256: "vboxsf",
	0xbacbacbc: "vmhgfs",
	0x7c7c6673: "prl_fs",
}

// local names the usual rest, for messages.
var local = map[uint32]string{
	0x0000ef53: "ext4",
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x2fc12fc1: "zfs",
	0xca451a4e: "bcachefs",
	0xf2f52010: "f2fs",
	0x01021994: "tmpfs",
	0x794c7630: "overlayfs",
	0x00004d44: "vfat",
}

// FilesystemType names the file system of the directory. If cachedListings is
// true it is a network or FUSE file system, whose listings may lag behind the
// puts of other machines: list-after-write does not hold there, and online
// collection must be refused. A file system that cannot be asked counts as
// such a one; one that is merely not known by name does not.
func (s *Store) FilesystemType() (name string, cachedListings bool) {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(int(s.root.Fd()), &st) })
	if err != nil {
		return "unknown", true
	}
	return filesystemName(uint32(st.Type))
}

func filesystemName(magic uint32) (name string, cachedListings bool) {
	if name, found := remote[magic]; found {
		return name, true
	}
	if name, found := local[magic]; found {
		return name, false
	}
	return fmt.Sprintf("%#x", magic), false
}
