// Package localserver runs the servers that suites of stores need, on this machine.
package localserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// FreeAddress is an address on which nobody listens at the moment. Its port is below those
// that the kernel gives to whoever asks for any: between the look and the server's bind
// nobody else gets it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
	t.Fatal(err)
	return ""
}

// Run starts a server, waits until it listens, and stops it when the test ends. Its patience
// is how long it may take to start, and to stop.
func Run(t testing.TB, address string, server *exec.Cmd, patience time.Duration) {
	t.Helper()
	logFile, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = logFile, logFile
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		stop(server.Process, ended, patience)
		logFile.Close()
	})
	if !listens(address, ended, patience) {
		text, _ := os.ReadFile(logFile.Name())
		t.Fatalf("%s does not listen on %s:\n%s", filepath.Base(server.Path), address, LastLines(text))
	}
}

func stop(process *os.Process, ended <-chan struct{}, patience time.Duration) {
	process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(patience):
		process.Kill()
		<-ended
	}
}

func listens(address string, ended <-chan struct{}, patience time.Duration) bool {
	tries := time.NewTicker(20 * time.Millisecond)
	defer tries.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-tries.C:
		}
	}
	return false
}

// LastLines are the last twenty lines of what a program has said.
func LastLines(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-20):], []byte("\n"))
}
