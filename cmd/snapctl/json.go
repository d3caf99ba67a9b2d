package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/snapctl/snapctl/engine/manifest"
)

// File names are bytes, JSON strings are Unicode. The one rule for every field
// X that holds a name (path, target, source): X is the name as text, with
// U+FFFD for each byte that is not UTF-8, and only if there is such a byte,
// X_b64 holds the exact bytes in standard base64. So a reader that takes X_b64
// where it is there, and X otherwise, never loses a byte.

// exactBytes returns the X_b64 of a name: empty if the name is its own text.
func exactBytes(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name))
}

// pathFields are the fields of a path in JSON.
type pathFields struct {
	Path    string `json:"path"`
	PathB64 string `json:"path_b64,omitempty"`
}

func pathOf(path string) pathFields { return pathFields{path, exactBytes(path)} }

// raw returns the path that pathOf was given.
func (p pathFields) raw() string { return p.Path }

// sourceFields are the fields of a source in JSON.
type sourceFields struct {
	Source    string `json:"source"`
	SourceB64 string `json:"source_b64,omitempty"`
}

func sourceOf(source string) sourceFields { return sourceFields{source, exactBytes(source)} }

// omission is a path that is not as it should be, in JSON.
type omission struct {
	pathFields
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

func omissionsOf(list []manifest.Omission) []omission {
	out := make([]omission, len(list))
	for i, o := range list {
		out[i] = omission{pathOf(o.Path), o.Class.String(), o.Reason}
	}
	return out
}

// octal is a mode in JSON.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// marshalLine encodes v as one line of JSON, without the newline.
func marshalLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escapeJSON writes the characters that a terminal might act on as \u escapes.
// The encoder leaves DEL, the C1 controls and the characters that reorder text
// as they are. Outside of strings JSON is ASCII, so that whatever is found is
// in a string.
func escapeJSON(line []byte) []byte {
	if clean(line) {
		return line
	}
	out := make([]byte, 0, len(line)+16)
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case strconv.IsPrint(r):
			out = append(out, line[:n]...)
		case r > 0xffff:
			hi, lo := surrogates(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[n:]
	}
	return out
}

func clean(line []byte) bool {
	for _, b := range line {
		if b < ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}

func surrogates(r rune) (hi, lo rune) {
	r -= 0x10000
	return 0xd800 + r>>10, 0xdc00 + r&0x3ff
}
