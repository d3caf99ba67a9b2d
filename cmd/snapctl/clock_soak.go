//go:build soak

package main

import (
	"os"
	"time"
)

// The program of the soak test has a clock that is wrong by the length of time in
// TEST_CLOCK. Requests are signed, and files of the machine judged, by the
// machine's own clock all the same. No release is built with this tag.
func init() {
	wrong, err := time.ParseDuration(os.Getenv("TEST_CLOCK"))
	if err != nil {
		panic(err)
	}
	repositoryClock = func() time.Time { return time.Now().Add(wrong) }
}
