package fuzz_test

import (
	"bytes"
	"testing"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// What decodes as the content of a snapshot object encodes to the same bytes.
func FuzzRecord(f *testing.F) {
	record := commit.Record{
		Manifest: &manifest.Manifest{
			Root: blob.ID{1}, Links: blob.ID{2}, Parent: blob.ID{3}, Time: manifest.Time{Sec: 5, Nsec: 6},
			Source: "host:/workspace", Labels: []manifest.Label{{Key: "a", Value: "b"}}, Consistency: manifest.Torn,
			Counts:    manifest.Counts{Files: 1, Bytes: 2, Torn: 1},
			Omissions: []manifest.Omission{{Path: "x\xff", Class: manifest.TornFile, Reason: "changed"}}, Tool: "test",
		},
		Packs: []packfile.Name{{1}, {2}},
	}
	f.Add(record.Encode())
	record.Manifest.Labels, record.Manifest.Omissions, record.Packs = nil, nil, nil
	f.Add(record.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		record, err := commit.DecodeRecord(b)
		if err == nil && !bytes.Equal(record.Encode(), b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, record, record.Encode())
		}
	})
}

// What decodes as a list of packs encodes to the same bytes.
func FuzzPackList(f *testing.F) {
	f.Add(commit.EncodeNames(nil))
	f.Add(commit.EncodeNames([]packfile.Name{{1}, {2}, {0xff}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		names, err := commit.DecodeNames(b)
		if err == nil && !bytes.Equal(commit.EncodeNames(names), b) {
			t.Errorf("%x decodes to %v, which encodes to something else", b, names)
		}
	})
}

// A view lies in local state, where anybody who is this user may write.
func FuzzView(f *testing.F) {
	f.Add(commit.View{}.Encode())
	f.Add(commit.View{Highest: 7, Dead: index.PackSet{{1}: {}, {2}: {}}, Damaged: index.PackSet{{3}: {}}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		view, err := commit.DecodeView(b)
		if err != nil {
			mustBeDamaged(t, err)
			return
		}
		if again := view.Encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes and re-encodes to %x", b, again)
		}
	})
}

// What decodes as a change of labels encodes to the same bytes.
func FuzzLabelChange(f *testing.F) {
	change, err := commit.NewLabelChange(map[string]string{"a": "1", "b": ""}, []string{"c", "d"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(change.Encode())
	f.Add(commit.LabelChange{}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		change, err := commit.DecodeLabelChange(b)
		if err == nil && !bytes.Equal(change.Encode(), b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, change, change.Encode())
		}
	})
}
