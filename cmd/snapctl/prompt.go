package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/term"
)

// askPassphrase asks on the terminal that controls the process, whatever
// standard input and output are. Asked is false if there is none.
func askPassphrase(ctx context.Context, question string) (passphrase string, asked bool, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", false, nil
	}
	defer tty.Close() // after the terminal is as it was
	fd := int(tty.Fd())
	// The echo is off before the question is there to answer. ReadPassword
	// leaves raw mode, but for the echo, while it waits.
	state, err := term.MakeRaw(fd)
	if err != nil {
		return "", false, nil
	}
	fmt.Fprintf(tty, "snapctl: %s: ", question)
	defer func() {
		term.Restore(fd, state)
		fmt.Fprintln(tty)
	}()
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // a read from a terminal cannot be cancelled; the process ends soon if it is not answered
		text, err := term.ReadPassword(fd)
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return "", true, fmt.Errorf("read passphrase: %w", a.err)
		}
		passphrase, err = checkPassphrase("the terminal", a.text)
		return passphrase, true, err
	case <-ctx.Done():
		return "", true, ctx.Err()
	}
}
