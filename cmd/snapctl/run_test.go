package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// within runs the program in this process, in an environment of its own.
func within(ctx context.Context, env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	code = run(ctx, args, streams{strings.NewReader(""), &out, &talk}, lookup)
	return code, out.String(), talk.String()
}

func TestCancelledIs130(t *testing.T) {
	env := map[string]string{envHome: t.TempDir()}
	if code, _, talk := within(t.Context(), env, "init", "--quiet"); code != exitDone {
		t.Fatalf("init: %d, %s", code, talk)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, talk := within(ctx, env, "list")
	if code != exitInterrupted || out != "" || !strings.Contains(talk, "snapctl: interrupted") {
		t.Errorf("cancelled: %d, %q, %q", code, out, talk)
	}
}

// TestSignals interrupts a run that waits for a command.
func TestSignals(t *testing.T) {
	home := t.TempDir()
	if code, _, talk := within(t.Context(), map[string]string{envHome: home}, "init", "--quiet"); code != exitDone {
		t.Fatalf("init: %d, %s", code, talk)
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command("snapctl", "list", "--passphrase-command", "echo ready >&2; exec sleep 600")
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		talk := bufio.NewReader(pipe)
		if line, err := talk.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(talk)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: %v", signal, err)
		}
		if want := "snapctl: interrupted\nsnapctl: hint: nothing has to be cleaned up"; !strings.HasPrefix(string(rest), want) {
			t.Errorf("%v: talk is %q", signal, rest)
		}
	}
}

// TestHelp holds every command to its help: a sentence, an example and the exit
// status, and every option and command to the documentation.
func TestHelp(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := func(what string) {
		if !bytes.Contains(manual, []byte("`"+what)) {
			t.Errorf("docs/cli.md does not mention `%s`", what)
		}
	}
	root := newRootCommand(&cli{out: bufio.NewWriter(io.Discard), talk: newTalker(io.Discard, environ{})})
	each(root, func(cmd *cobra.Command) {
		if cmd.Hidden || !cmd.Runnable() && !cmd.HasSubCommands() {
			return
		}
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"Usage:", "Examples:\n  snapctl", "EXIT STATUS\n  0 "} {
			if !strings.Contains(help.String(), part) {
				t.Errorf("help of %s has no %q", cmd.CommandPath(), part)
			}
		}
		documented(cmd.CommandPath())
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				documented("--" + f.Name)
			}
		})
	})
	for _, v := range envTable {
		documented(v.name)
	}
	for code, meaning := range exitMeanings {
		if !strings.Contains(string(manual), meaning) {
			t.Errorf("docs/cli.md does not have the meaning of %d: %s", code, meaning)
		}
	}
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, do)
	}
}
