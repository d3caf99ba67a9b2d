package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPromptDoesNotEcho types a passphrase when it is asked for, and not before:
// what is typed ahead is echoed by the terminal itself.
func TestPromptDoesNotEcho(t *testing.T) {
	home := t.TempDir()
	secret := filepath.Join(home, "pass")
	if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, talk := within(t.Context(), map[string]string{envHome: home}, "init", "--quiet", "--passphrase-file", secret); code != exitDone {
		t.Fatalf("init: %d, %s", code, talk)
	}
	master, tty := openTerminal(t)
	cmd := exec.Command("snapctl", "stats", "--json")
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	cmd.ExtraFiles = []*os.File{tty}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	question := "snapctl: passphrase of the repository " + filepath.Join(home, ".local/share/snapctl/repo") + ": "
	seen := readUntil(t, master, question)
	if mode, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS); err != nil || mode.Lflag&unix.ECHO != 0 {
		t.Errorf("the echo is on when the question is there: %v", err)
	}
	if _, err := master.WriteString("open sesame\n"); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(master) // EIO when the last process has closed its end
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, terminal shows %q", err, rest)
	}
	if shown := seen + string(rest); shown != question+"\r\n" {
		t.Errorf("terminal shows %q", shown)
	}
	if !strings.Contains(out.String(), `"snapshots":0`) {
		t.Errorf("output is %q", out.String())
	}
}

func readUntil(t *testing.T, from io.Reader, text string) string {
	var seen strings.Builder
	buffer := make([]byte, 256)
	for !strings.Contains(seen.String(), text) {
		if seen.Len() > len(text) && strings.HasSuffix(seen.String(), ": ") {
			t.Fatalf("terminal shows %q, not %q", seen.String(), text)
		}
		n, err := from.Read(buffer)
		if err != nil {
			t.Fatalf("terminal shows %q and then %v", seen.String(), err)
		}
		seen.Write(buffer[:n])
	}
	return seen.String()
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, tty *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, tty
}
