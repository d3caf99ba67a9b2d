package manifest

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// ErrInvalid says that an entry, a list or a manifest breaks a rule of the
// format, so that no reader would accept it.
var ErrInvalid = errors.New("cannot be stored")

// CheckName tells whether name may stand in a directory: one path component,
// of any bytes but '/' and NUL, neither "." nor "..". It is checked when a node
// is encoded and when it is decoded, so that no path made of entries can leave
// the directory it is restored into. Errors wrap ErrDamaged.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%w: %q is not the name of an entry", ErrDamaged, name)
	case len(name) > MaxName:
		return fmt.Errorf("%w: name of %d bytes, more than %d", ErrDamaged, len(name), MaxName)
	case strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: name %q holds a slash or a NUL", ErrDamaged, name)
	}
	return nil
}

// Check tells whether the entry keeps the rules of the format, its name aside
// (see CheckName). Both the writers and the decoder ask it, so that what is
// written can be read. Fields that do not belong to the kind are ignored. Errors
// wrap ErrInvalid.
func (e *Entry) Check() error {
	if e.Mode > 0o7777 {
		return invalid("mode %o", e.Mode)
	}
	if e.MTime.Nsec >= 1e9 {
		return invalid("%d nanoseconds", e.MTime.Nsec)
	}
	if err := e.checkKind(); err != nil {
		return err
	}
	return checkXattrs(e.Xattrs)
}

func (e *Entry) checkKind() error {
	switch e.Kind {
	case File:
		return checkContent(e.Content, e.Size)
	case Dir:
		if e.Node.IsZero() {
			return invalid("directory without a node")
		}
	case Symlink:
		if e.Target == "" || len(e.Target) > MaxTarget || strings.IndexByte(e.Target, 0) >= 0 {
			return invalid("symlink target of %d bytes: %.64q", len(e.Target), e.Target)
		}
	case FIFO, Socket, CharDevice, BlockDevice:
	default:
		return invalid("unknown %v", e.Kind)
	}
	return nil
}

// checkContent does not look into a content list: ReadContent does.
func checkContent(c Content, size uint64) error {
	if size > math.MaxInt64 {
		return invalid("file of %d bytes", size)
	}
	if !c.List.IsZero() {
		if size == 0 {
			return invalid("empty file with a content list")
		}
		return nil
	}
	if len(c.Extents) > MaxExtents {
		return invalid("%d extents in an entry", len(c.Extents))
	}
	total, err := checkExtents(c.Extents)
	if err == nil && total != size {
		return invalid("extents of %d bytes in a file of %d", total, size)
	}
	return err
}

// checkExtents returns the length of all extents. Empty extents and neighbouring
// holes are not canonical.
func checkExtents(extents []Extent) (uint64, error) {
	total := uint64(0)
	for i, x := range extents {
		if x.Length == 0 || x.Length > math.MaxInt64-total {
			return 0, invalid("extent of %d bytes behind %d", x.Length, total)
		}
		if i > 0 && x.Hole() && extents[i-1].Hole() {
			return 0, invalid("two holes in a row")
		}
		total += x.Length
	}
	return total, nil
}

func checkXattrs(xattrs []Xattr) error {
	if len(xattrs) > MaxXattrs {
		return invalid("%d xattrs", len(xattrs))
	}
	for i := range xattrs {
		if err := checkXattr(&xattrs[i]); err != nil {
			return err
		}
		if i > 0 && xattrs[i-1].Name >= xattrs[i].Name {
			return invalid("xattr %q follows %q", xattrs[i].Name, xattrs[i-1].Name)
		}
	}
	return nil
}

func checkXattr(x *Xattr) error {
	switch {
	case x.Name == "" || len(x.Name) > MaxXattrName || strings.IndexByte(x.Name, 0) >= 0:
		return invalid("xattr name of %d bytes: %.64q", len(x.Name), x.Name)
	case x.Blob.IsZero() && len(x.Value) > MaxInlineXattr:
		return invalid("xattr value of %d bytes in an entry", len(x.Value))
	case !x.Blob.IsZero() && (x.Size <= MaxInlineXattr || x.Size > MaxXattrValue):
		return invalid("xattr value of %d bytes in a blob", x.Size)
	}
	return nil
}

// checkGroup tells whether the paths can stand in a link list as one group.
func checkGroup(group []string) error {
	if len(group) < 2 {
		return invalid("link group of %d paths", len(group))
	}
	previous, size := "", 0
	for _, path := range group {
		if err := checkPath(previous, path); err != nil {
			return err
		}
		previous, size = path, size+len(path)
	}
	if size > MaxLinkGroup {
		return invalid("paths of a link group have %d bytes", size)
	}
	return nil
}

// checkPath holds a path of a link group, and the one before it if there is one,
// to the rules: they ascend, and no component leaves the root.
func checkPath(previous, path string) error {
	if path <= previous {
		return invalid("path %q follows %q in a link group", path, previous)
	}
	if len(path) > MaxPath {
		return invalid("path of %d bytes in a link group", len(path))
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := CheckName(name); err != nil {
			return invalid("path %q in a link group: %v", path, err)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
