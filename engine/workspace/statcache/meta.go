package statcache

import (
	"errors"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// metaKey holds the identity and the base. Keys of records contain a NUL, this
// one does not.
var metaKey = []byte("meta")

// Its value:
//
//	1 byte  version
//	strings repository, chunking, policy, root
//	string  boot id of the machine
//	1 byte  1 if there is a base, which follows:
//	32 bytes snapshot, 32 bytes dir, string opaque
const maxMeta = 64 << 20

var errOtherIdentity = errors.New("stat cache of another identity")

func (c *Cache) store(base Base, based bool) error {
	b := []byte{version}
	for _, s := range c.identity.fields() {
		b = wire.AppendString(b, s)
	}
	b = wire.AppendString(b, bootID())
	if based {
		b = append(b, 1)
		b = append(b, base.Snapshot[:]...)
		b = append(b, base.Dir[:]...)
		b = wire.AppendString(b, base.Opaque)
	} else {
		b = append(b, 0)
	}
	return c.failed.Catch(func() error { return c.db.Set(metaKey, b, pebble.Sync) })
}

func (i Identity) fields() []string { return []string{i.Repository, i.Chunking, i.Policy, i.Root} }

// load reads the meta value and compares identities.
func (c *Cache) load() error {
	value, closer, err := c.db.Get(metaKey)
	if err != nil {
		return err
	}
	defer closer.Close()
	d := wire.NewDecoder("stat cache", value)
	if d.Byte() != version {
		return errOtherIdentity
	}
	for _, want := range c.identity.fields() {
		if string(d.String(maxMeta)) != want {
			return errOtherIdentity
		}
	}
	boot := string(d.String(maxMeta))
	base := Base{}
	based := d.Byte() == 1
	if based {
		copy(base.Snapshot[:], d.Bytes(blob.IDSize))
		copy(base.Dir[:], d.Bytes(blob.IDSize))
		base.Opaque = append([]byte(nil), d.String(maxMeta)...)
	}
	if err := d.Finish(); err != nil {
		return err
	}
	c.base, c.based = base, based
	c.reliable = boot != "" && boot == bootID()
	return nil
}

// bootID names this run of the kernel; empty where it is not told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
