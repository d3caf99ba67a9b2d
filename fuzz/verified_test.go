package fuzz_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine/verified"
	"github.com/snapctl/snapctl/packfile"
)

// What decodes as a record of what was verified encodes to the same bytes.
func FuzzVerified(f *testing.F) {
	var record verified.Record
	f.Add(record.Encode())
	record.Note(packfile.Name{1}, time.Unix(0, 0))
	record.Note(packfile.Name{0xff}, time.Unix(1_700_000_000, 0))
	f.Add(record.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		record, err := verified.Decode(b)
		if err != nil {
			mustBeDamaged(t, err)
			return
		}
		if again := record.Encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes and re-encodes to %x", b, again)
		}
	})
}
