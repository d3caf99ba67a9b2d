//go:build !linux

package s3

import (
	"syscall"
	"time"
)

// abortStalled does nothing: a stalled upload ends with the time for the whole.
func abortStalled(time.Duration) func(network, address string, conn syscall.RawConn) error {
	return nil
}
