package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
)

var anyName = rapid.OneOf(
	rapid.String(),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	rapid.StringMatching(`"?[a" ]{0,3}"?`),
)

// What is quoted can be unquoted, what is not is the name itself, and nothing
// that a terminal acts on gets through.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyName.Draw(t, "name")
		text := quote(name)
		back := text
		if strings.HasPrefix(text, `"`) {
			var err error
			if back, err = strconv.Unquote(text); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if back != name {
			t.Fatalf("%q came back as %q", name, back)
		}
		for _, r := range text + printable(name) {
			if !strconv.IsPrint(r) {
				t.Fatalf("%q holds %U", text, r)
			}
		}
	})
}

// A name goes through JSON without loss, and the line holds nothing that a
// terminal acts on.
func TestJSONKeepsNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyName.Draw(t, "name")
		line, err := marshalLine(pathOf(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range string(line) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%q holds %U", line, r)
			}
		}
		var got struct {
			Path string
			B64  *string `json:"path_b64"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		back := got.Path
		if got.B64 != nil {
			raw, err := base64.StdEncoding.DecodeString(*got.B64)
			if err != nil {
				t.Fatal(err)
			}
			back = string(raw)
		}
		if back != name {
			t.Fatalf("%q came back as %q", name, back)
		}
	})
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB",
		5 << 30: "5.0 GiB", 1<<64 - 1: "16.0 EiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestStamp(t *testing.T) {
	for _, test := range []struct {
		at   manifest.Time
		want string
	}{
		{manifest.Time{}, "1970-01-01T00:00:00Z"},
		{manifest.Time{Sec: 1700000000, Nsec: 5}, "2023-11-14T22:13:20.000000005Z"},
		{manifest.Time{Sec: -1, Nsec: 999999999}, "1969-12-31T23:59:59.999999999Z"},
		{manifest.Time{Sec: 253402300799}, "9999-12-31T23:59:59Z"},
		{manifest.Time{Sec: 253402300800}, "@253402300800.000000000"},
		{manifest.Time{Sec: 1<<63 - 1, Nsec: 1}, "@9223372036854775807.000000001"},
		{manifest.Time{Sec: -1 << 63}, "@-9223372036854775808.000000000"},
	} {
		if got := stamp(test.at); got != test.want {
			t.Errorf("stamp(%v) = %q, want %q", test.at, got, test.want)
		}
	}
}

func TestModeString(t *testing.T) {
	for _, test := range []struct {
		kind manifest.EntryKind
		mode uint32
		want string
	}{
		{manifest.File, 0o644, "-rw-r--r--"},
		{manifest.Dir, 0o1777, "drwxrwxrwt"},
		{manifest.File, 0o4755, "-rwsr-xr-x"},
		{manifest.File, 0o2644, "-rw-r-Sr--"},
		{manifest.File, 0o7000, "---S--S--T"},
		{manifest.CharDevice, 0o600, "crw-------"},
		{99, 0, "?---------"},
	} {
		if got := modeString(test.kind, test.mode); got != test.want {
			t.Errorf("modeString(%v, %o) = %q, want %q", test.kind, test.mode, got, test.want)
		}
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-31T15:04:05Z":      time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
		"2026-01-31T15:04:05+02:00": time.Date(2026, 1, 31, 13, 4, 5, 0, time.UTC),
		"2026-01-31":                time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"90m":                       now.Add(-90 * time.Minute),
		"2h":                        now.Add(-2 * time.Hour),
		"3d":                        now.AddDate(0, 0, -3),
		"1w":                        now.AddDate(0, 0, -7),
		"1d12h":                     now.Add(-36 * time.Hour),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "h", "3", "3x", "-2h", "2.5h", "99999999999999999999h", "9999999w", "9223372036s9223372036s", "2026-13-01", "now"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("parseTime(%q) = %v", text, got)
		}
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"100%": 1, "10%": 0.1, "0.5%": 0.005} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("parseShare(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "10", "0%", "-1%", "101%", "NaN%", "Inf%"} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("parseShare(%q) = %v", text, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		progress engine.Progress
		want     string
	}{
		{engine.Progress{Op: "snapshot", Phase: "read"}, "snapshot read"},
		{engine.Progress{Op: "snapshot", Elapsed: 2 * time.Second, Files: 10, Bytes: 4 << 20}, "snapshot, 10 files, 4.0 MiB, 2.0 MiB/s"},
		{engine.Progress{Op: "restore", Elapsed: time.Minute, Files: 1, Bytes: 1 << 20, TotalFiles: 4, TotalBytes: 4 << 20, Current: "a\x1bb"},
			`restore, 1 of 4 files, 1.0 MiB of 4.0 MiB, 17.1 KiB/s, ETA 3:00, "a\x1bb"`},
		{engine.Progress{Op: "restore", Elapsed: time.Hour, Files: 1, TotalFiles: 3}, "restore, 1 of 3 files, ETA 2:00:00"},
	} {
		if got := describe(test.progress); got != test.want {
			t.Errorf("describe: %q, want %q", got, test.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"日本", 3, "日"}, {"日本", 4, "日本"}, {"", 0, ""}} {
		if got := cut(test.text, test.columns); got != test.want {
			t.Errorf("cut(%q, %d) = %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

func TestTextOnly(t *testing.T) {
	const text = "text\twith\r\n日本\f"
	for cut := range len(text) { // wherever one write ends and the next begins
		var kept strings.Builder
		w := &textOnly{w: &kept}
		for _, part := range []string{text[:cut], text[cut:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Errorf("cut at %d: %v", cut, err)
			}
		}
		if kept.String() != text {
			t.Errorf("cut at %d: %q", cut, kept.String())
		}
	}
	for _, bad := range []string{"\x00", "a\x1b[2J", "\x7f", "\u009b2J", "\xff", "\xe6a"} {
		if _, err := (&textOnly{w: io.Discard}).Write([]byte(bad)); err == nil {
			t.Errorf("%q got through", bad)
		}
	}
}
