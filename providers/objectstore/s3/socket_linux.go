package s3

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// abortStalled makes the kernel close a connection whose other side has
// acknowledged nothing for that long although there is something to send. A
// kernel that cannot do it is no reason not to connect.
func abortStalled(after time.Duration) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(1, after.Milliseconds())))
		})
	}
}
