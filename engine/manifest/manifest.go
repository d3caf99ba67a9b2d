package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Manifest describes one snapshot. It is immutable; its blob id is the snapshot
// id.
type Manifest struct {
	Root        blob.ID // of the root node
	Links       blob.ID // of the list of hard-link groups; zero if there are none
	Time        Time    // never before the parent's
	Parent      blob.ID // snapshot id; zero if there is none
	Source      string  // where the workspace was, as the writer calls it: "host:/path"
	Labels      []Label // initial ones, sorted by key
	Consistency Consistency
	Counts      Counts
	Omissions   []Omission // the first MaxOmissions of them, in the order of paths
	Tool        string     // name and version of the writer
}

// LabelMap returns the labels that the snapshot was published with, by their keys.
func (m *Manifest) LabelMap() map[string]string {
	labels := make(map[string]string, len(m.Labels))
	for _, l := range m.Labels {
		labels[l.Key] = l.Value
	}
	return labels
}

// Label is a key with a value that users give a snapshot.
type Label struct{ Key, Value string }

// Consistency says how still the workspace stood. The values are part of the
// format; do not change.
type Consistency uint8

// The grades of consistency, best first.
const (
	Quiesced Consistency = 1 // writers had finished and data was flushed
	Paused   Consistency = 2 // writers were stopped
	Live     Consistency = 3 // writers may have run
	Torn     Consistency = 4 // a file changed while it was read
)

func (c Consistency) String() string {
	switch c {
	case Quiesced:
		return "quiesced"
	case Paused:
		return "paused"
	case Live:
		return "live"
	case Torn:
		return "torn"
	}
	return "unknown"
}

// Counts say how much a snapshot holds and what it lacks.
type Counts struct {
	Files, Dirs, Symlinks, Others uint64 // Others: FIFOs, sockets, devices
	Bytes                         uint64 // of files, holes included
	Excluded                      uint64 // left out by a rule; a directory counts once
	Unreadable                    uint64 // could not be read: the snapshot is partial
	Torn                          uint64 // changed while they were read
	Vanished                      uint64 // were gone before they were read
}

func (c *Counts) fields() []*uint64 {
	return []*uint64{&c.Files, &c.Dirs, &c.Symlinks, &c.Others, &c.Bytes, &c.Excluded, &c.Unreadable, &c.Torn, &c.Vanished}
}

// Omission is a path that is not in the snapshot as it was in the workspace.
type Omission struct {
	Path   string // below the root, raw bytes
	Class  OmissionClass
	Reason string // the rule, or the error
}

// OmissionClass says why. The values are part of the format; do not change.
type OmissionClass uint8

// The classes of omissions.
const (
	Excluded    OmissionClass = 1
	Unreadable  OmissionClass = 2
	TornFile    OmissionClass = 3
	Unsupported OmissionClass = 4 // an attribute was not kept; the entry was
)

func (c OmissionClass) String() string {
	switch c {
	case Excluded:
		return "excluded"
	case Unreadable:
		return "unreadable"
	case TornFile:
		return "torn"
	case Unsupported:
		return "unsupported"
	}
	return "unknown"
}

// Bounds of manifests. What is larger is damaged, or refused by the writer.
const (
	MaxManifest   = 8 << 20 // bytes, encoded
	MaxOmissions  = 1000
	MaxReason     = 1 << 10
	MaxSource     = 1 << 13
	MaxLabels     = 256
	MaxLabelKey   = 128
	MaxLabelValue = 4 << 10
	maxTool       = 128
)

// An encoded manifest. Numbers are varints, strings have their length in front
// (see package wire). Part of the format; do not change.
//
//	1 byte    version: 0
//	32 bytes  root; 32 bytes links, zero if none; 32 bytes parent, zero if none
//	signed    time seconds; varint time nanoseconds
//	string    source
//	varint    number of labels, for each: string key, string value; ascending keys
//	1 byte    consistency
//	9 varints files, dirs, symlinks, others, bytes, excluded, unreadable, torn, vanished
//	varint    number of omissions, for each: string path, 1 byte class, string reason
//	string    tool
const manifestVersion = 0

// Check tells whether Decode would accept the manifest: labels sorted, all
// lengths within bounds, at most MaxManifest bytes in all. A writer asks before it
// publishes, since a manifest that cannot be read restores nothing. Errors wrap
// ErrInvalid.
func (m *Manifest) Check() error {
	if _, err := Decode(m.Encode()); err != nil {
		return fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	return nil
}

// Encode returns the canonical encoding. Labels must be sorted by key.
func (m *Manifest) Encode() []byte {
	b := []byte{manifestVersion}
	b = append(b, m.Root[:]...)
	b = append(b, m.Links[:]...)
	b = append(b, m.Parent[:]...)
	b = binary.AppendVarint(b, m.Time.Sec)
	b = binary.AppendUvarint(b, uint64(m.Time.Nsec))
	b = wire.AppendString(b, m.Source)
	b = binary.AppendUvarint(b, uint64(len(m.Labels)))
	for _, l := range m.Labels {
		b = wire.AppendString(wire.AppendString(b, l.Key), l.Value)
	}
	b = append(b, byte(m.Consistency))
	for _, f := range m.Counts.fields() {
		b = binary.AppendUvarint(b, *f)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Omissions)))
	for _, o := range m.Omissions {
		b = append(wire.AppendString(b, o.Path), byte(o.Class))
		b = wire.AppendString(b, o.Reason)
	}
	return wire.AppendString(b, m.Tool)
}

// Decode is the inverse of Encode. Errors wrap ErrDamaged.
func Decode(b []byte) (*Manifest, error) {
	d := wire.NewDecoder("manifest", b)
	if len(b) > MaxManifest {
		d.Fail("%d bytes long", len(b))
	}
	if v := d.Byte(); v != manifestVersion {
		d.Fail("version %d is not known to this program", v)
	}
	m := &Manifest{Root: decodeID(d)}
	copy(m.Links[:], d.Bytes(blob.IDSize))
	copy(m.Parent[:], d.Bytes(blob.IDSize))
	m.Time = Time{Sec: d.Varint(), Nsec: uint32(d.Uvarint(999_999_999))}
	m.Source = string(d.String(MaxSource))
	m.Labels = decodeLabels(d)
	m.Consistency = Consistency(d.Byte())
	if m.Consistency < Quiesced || m.Consistency > Torn {
		d.Fail("consistency %d", m.Consistency)
	}
	for _, f := range m.Counts.fields() {
		*f = d.Uvarint(math.MaxInt64)
	}
	m.Omissions = decodeOmissions(d)
	m.Tool = string(d.String(maxTool))
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeLabels(d *wire.Decoder) []Label {
	n := min(d.Count(2), MaxLabels+1)
	if n > MaxLabels {
		d.Fail("more than %d labels", MaxLabels)
	}
	labels := make([]Label, 0, n)
	for i := 0; i < n && d.Err() == nil; i++ {
		labels = append(labels, Label{Key: string(d.String(MaxLabelKey)), Value: string(d.String(MaxLabelValue))})
	}
	for i := 1; i < len(labels); i++ {
		if labels[i-1].Key >= labels[i].Key {
			d.Fail("labels are not sorted")
		}
	}
	return labels
}

func decodeOmissions(d *wire.Decoder) []Omission {
	n := min(d.Count(3), MaxOmissions+1)
	if n > MaxOmissions {
		d.Fail("more than %d omissions", MaxOmissions)
	}
	omissions := make([]Omission, 0, n)
	for i := 0; i < n && d.Err() == nil; i++ {
		o := Omission{Path: string(d.String(MaxPath)), Class: OmissionClass(d.Byte()), Reason: string(d.String(MaxReason))}
		if o.Class < Excluded || o.Class > Unsupported {
			d.Fail("omission of class %d", o.Class)
		}
		omissions = append(omissions, o)
	}
	return omissions
}
