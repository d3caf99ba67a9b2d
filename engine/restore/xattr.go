package restore

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"golang.org/x/sys/unix"
)

const (
	capability = "security.capability"
	aclPrefix  = "system.posix_acl_"

	// maxXattrs is what Linux allows for a list of names, and for a value.
	maxXattrs = 64 << 10
)

// managed tells whether attributes of that name are removed where the
// snapshot has none. Others, such as security.selinux, belong to the host.
func managed(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, aclPrefix) || name == capability
}

// mayGrant tells whether an attribute of a snapshot is restored. Capabilities,
// and what the kernel gives a meaning that is not known here, need Privileged.
func (s *session) mayGrant(name string) bool {
	return s.opts.Privileged || managed(name) && name != capability
}

// xattrStep is one attribute to set, or to remove if entry is nil.
type xattrStep struct {
	name  string
	entry *manifest.Xattr
}

// xattrPlan is what makes the xattrs of a file those of its entry.
type xattrPlan struct {
	steps   []xattrStep
	refused []string // names that may not be granted and are not there
}

// planXattrs compares the xattrs of a file with those of its entry.
func (s *session) planXattrs(r xattrReader, e *manifest.Entry) (xattrPlan, error) {
	var p xattrPlan
	there, err := listXattrs(r)
	if err != nil {
		return p, err
	}
	for _, name := range there {
		if managed(name) && findXattr(e.Xattrs, name) == nil {
			p.steps = append(p.steps, xattrStep{name: name})
		}
	}
	for i := range e.Xattrs {
		x := &e.Xattrs[i]
		i := sort.SearchStrings(there, x.Name)
		exists := i < len(there) && there[i] == x.Name
		if exists {
			same, err := s.sameXattr(r, x)
			if err != nil {
				return p, err
			}
			if same {
				continue
			}
		}
		switch {
		case s.mayGrant(x.Name):
			p.steps = append(p.steps, xattrStep{name: x.Name, entry: x})
		default:
			p.refused = append(p.refused, x.Name)
			if exists && managed(x.Name) {
				p.steps = append(p.steps, xattrStep{name: x.Name})
			}
		}
	}
	return p, nil
}

func findXattr(xattrs []manifest.Xattr, name string) *manifest.Xattr {
	i := sort.Search(len(xattrs), func(i int) bool { return xattrs[i].Name >= name })
	if i < len(xattrs) && xattrs[i].Name == name {
		return &xattrs[i]
	}
	return nil
}

// listXattrs returns the sorted names.
func listXattrs(r xattrReader) ([]string, error) {
	var small [1024]byte
	buf := small[:]
	n, err := r.listXattrs(buf)
	if err == unix.ERANGE {
		buf = make([]byte, maxXattrs)
		n, err = r.listXattrs(buf)
	}
	if err != nil && noXattrs(err) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	sort.Strings(names)
	return names, nil
}

func (s *session) sameXattr(r xattrReader, x *manifest.Xattr) (bool, error) {
	buf := make([]byte, max(len(x.Value), int(x.Size))+1)
	n, err := r.getXattr(x.Name, buf)
	switch {
	case err == unix.ERANGE || err == unix.ENODATA || err == unix.EACCES: // longer, just removed, not readable
		return false, nil
	case err != nil:
		return false, err
	case x.Blob.IsZero():
		return bytes.Equal(buf[:n], x.Value), nil
	}
	return s.src.Name(blob.Data, buf[:n]) == x.Blob, nil
}

// setXattrs takes the steps of a plan, all that it can, and returns the first
// failure. aclSet says that the mode of the file may have changed with its ACL.
func (s *session) setXattrs(ctx context.Context, o object, steps []xattrStep) (aclSet bool, err error) {
	for _, step := range steps {
		stepErr := s.setXattr(ctx, o, step)
		if stepErr != nil && err == nil {
			err = stepErr
		}
		aclSet = aclSet || strings.HasPrefix(step.name, aclPrefix)
	}
	return aclSet, err
}

func (s *session) setXattr(ctx context.Context, o object, step xattrStep) error {
	if step.entry == nil {
		return wrapXattr("remove xattr ", step.name, o.removeXattr(step.name))
	}
	value := step.entry.Value
	if !step.entry.Blob.IsZero() {
		var err error
		if value, err = s.src.Blob(ctx, blob.Data, step.entry.Blob); err != nil {
			return wrapXattr("read xattr ", step.name, err)
		}
		if len(value) != int(step.entry.Size) {
			return wrapXattr("read xattr ", step.name, manifest.ErrDamaged)
		}
	}
	return wrapXattr("set xattr ", step.name, o.setXattr(step.name, value))
}

func wrapXattr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &attrError{op: op + name, err: err}
}

// attrError is a failure to set something of a file that is otherwise there.
type attrError struct {
	op  string
	err error
}

func (e *attrError) Error() string { return e.op + ": " + e.err.Error() }

func (e *attrError) Unwrap() error { return e.err }

func isAttr(err error) bool {
	var a *attrError
	return errors.As(err, &a)
}
