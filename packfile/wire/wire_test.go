package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNumbersHaveOneEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, i := rapid.Uint64().Draw(t, "u"), rapid.Int64().Draw(t, "i")
		b := binary.AppendVarint(binary.AppendUvarint(nil, u), i)
		d := NewDecoder("test", b)
		if gotU, gotI := d.Uvarint(math.MaxUint64), d.Varint(); gotU != u || gotI != i || d.Finish() != nil {
			t.Fatalf("decoded %d and %d, want %d and %d: %v", gotU, gotI, u, i, d.Err())
		}
	})
}

func TestWhatDecodesReencodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "b")
		d := NewDecoder("test", b)
		v := d.Uvarint(math.MaxUint64)
		if d.Finish() == nil && string(binary.AppendUvarint(nil, v)) != string(b) {
			t.Fatalf("% x decodes to %d, which encodes to % x", b, v, binary.AppendUvarint(nil, v))
		}
	})
}

func TestMalformedValues(t *testing.T) {
	tests := []struct {
		name string
		in   string
		read func(*Decoder)
		want string // part of the error
	}{
		{"empty", "", func(d *Decoder) { d.Uvarint(1) }, "cut short"},
		{"unfinished", "\x80", func(d *Decoder) { d.Uvarint(1 << 20) }, "cut short"},
		{"zero in two bytes", "\x80\x00", func(d *Decoder) { d.Uvarint(1) }, "shortest form"},
		{"padded", "\xff\x80\x00", func(d *Decoder) { d.Uvarint(1 << 20) }, "shortest form"},
		{"2^64", strings.Repeat("\x80", 9) + "\x02", func(d *Decoder) { d.Uvarint(math.MaxUint64) }, "shortest form"},
		{"eleven bytes", strings.Repeat("\x80", 10) + "\x01", func(d *Decoder) { d.Uvarint(math.MaxUint64) }, "shortest form"},
		{"above the limit", "\x06", func(d *Decoder) { d.Uvarint(5) }, "6 is larger than 5"},
		{"no byte", "", func(d *Decoder) { d.Byte() }, "cut short"},
		{"too few bytes", "abc", func(d *Decoder) { d.Bytes(4) }, "cut short"},
		{"negative length", "abc", func(d *Decoder) { d.Bytes(-1) }, "cut short"},
		{"string is cut", "\x04abc", func(d *Decoder) { d.String(10) }, "cut short"},
		{"string above the limit", "\x03abc", func(d *Decoder) { d.String(2) }, "3 is larger than 2"},
		{"count of 2^64-1", strings.Repeat("\xff", 9) + "\x01", func(d *Decoder) { d.Count(1) }, "elements announced in 0 bytes"},
		{"count beyond the rest", "\x03ababa", func(d *Decoder) { d.Count(2) }, "3 elements announced in 5 bytes"},
		{"left over", "\x01\x00", func(d *Decoder) { d.Byte() }, "1 bytes too many"},
		{"broken rule", "", func(d *Decoder) { d.Check(errors.New("odd")) }, "odd"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := NewDecoder("thing", []byte(tc.in))
			tc.read(d)
			err := d.Finish()
			if !errors.Is(err, ErrDamaged) || !strings.HasPrefix(err.Error(), "thing: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one of a damaged thing: %q", err, tc.want)
			}
		})
	}
}

func TestFirstFailureIsKept(t *testing.T) {
	d := NewDecoder("thing", []byte("\x05abcdefgh"))
	d.Fail("first")
	if d.Uvarint(9) != 0 || d.Varint() != 0 || d.Byte() != 0 || d.Bytes(2) != nil || d.String(9) != nil || d.Count(1) != 0 || d.Len() != 0 {
		t.Error("reads after a failure return something")
	}
	d.Fail("second")
	if err := d.Finish(); err == nil || !strings.HasSuffix(err.Error(), "first") {
		t.Errorf("error %v, want the first one", err)
	}
}

func TestStrings(t *testing.T) {
	b := AppendString(AppendString(nil, "name"), []byte{})
	d := NewDecoder("thing", b)
	if got := d.String(4); string(got) != "name" {
		t.Errorf("String = %q", got)
	}
	if got := d.String(0); len(got) != 0 || d.Finish() != nil {
		t.Errorf("String = %q, %v", got, d.Err())
	}
}

// A caller that appends to a decoded string must not write into the next value.
func TestStringsDoNotOverlapTheRest(t *testing.T) {
	d := NewDecoder("thing", []byte("\x01a\x01b"))
	a := d.String(1)
	_ = append(a, "!!"...)
	if b := d.String(1); string(b) != "b" {
		t.Errorf("second string is %q after the first was appended to", b)
	}
}
