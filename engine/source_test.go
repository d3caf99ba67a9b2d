package engine

import (
	"slices"
	"testing"
)

// A prefix is written with a dot at its end in Options, and with a star in the walk.
func TestXattrPatterns(t *testing.T) {
	got := xattrPatterns([]string{"trusted.", "security.selinux", "trusted.overlay."})
	if want := []string{"trusted.*", "security.selinux", "trusted.overlay.*"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
