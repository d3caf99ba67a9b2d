package file

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func TestExplain(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.ENOSPC: objectstore.ErrNoSpace,
		unix.EDQUOT: objectstore.ErrNoSpace,
		unix.EACCES: objectstore.ErrDenied,
		unix.EPERM:  objectstore.ErrDenied,
		unix.EROFS:  objectstore.ErrDenied,
		unix.EIO:    unix.EIO,
	} {
		for _, err := range []error{errno, &os.PathError{Op: "write", Path: "/the/path", Err: errno}} {
			got := explain("/the/path", err)
			if !errors.Is(got, want) || !errors.Is(got, errno) || strings.Count(got.Error(), "/the/path") != 1 {
				t.Errorf("%v is explained as %v", err, got)
			}
		}
	}
}

// TestSettledForgets checks that the memory for known folders is bounded.
func TestSettledForgets(t *testing.T) {
	var s settled
	for i := range 10_000 {
		s.add(strconv.Itoa(i))
		if len(s.paths) > 4096 {
			t.Fatalf("remembers %d folders", len(s.paths))
		}
	}
	if !s.has("9999") {
		t.Error("forgot the last folder")
	}
}

// TestStampIsRandom checks what makes an etag unique where the kernel's clock
// stands still: nanoseconds that come from no clock.
func TestStampIsRandom(t *testing.T) {
	s, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	temp, err := s.newTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer temp.discard()
	st, err := temp.fill(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	modified, changed := time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())
	if modified.Nanosecond() == changed.Nanosecond() || modified.Sub(changed).Abs() > 2*time.Second {
		t.Errorf("modified %v, changed %v", modified, changed)
	}
}
