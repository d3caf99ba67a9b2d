package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
)

// catOptions are the options of snapctl cat.
type catOptions struct {
	choose chooseOptions
	output string
}

func (o *catOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "write to this `file`; - is standard output, even if it is a terminal")
	o.choose.addFlags(f)
}

func newCatCommand(c *cli) *cobra.Command {
	var o catOptions
	cmd := c.command(spec{
		use: "cat SNAP PATH", group: groupDefault, args: cobra.ExactArgs(2), exits: exitsRepository,
		short: "print a file of a snapshot",
		long: `Content that is not text is not printed on a terminal, unless it is asked for by
-o -. With --json the content comes in pieces, as base64.`,
		example: "  snapctl cat latest src/main.go\n  snapctl cat 4f1d0c22 bin/tool -o tool",
	}, func(ctx context.Context, args []string) error { return c.cat(ctx, args[0], args[1], o) })
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *cli) cat(ctx context.Context, snap, path string, o catOptions) error {
	return c.withSnapshot(ctx, snap, o.choose, func(repo *engine.Repository, id engine.ID) error {
		count := &counter{}
		var err error
		if o.output != "" && o.output != "-" {
			err = writeWhole(o.output, func(w io.Writer) error { return repo.Cat(ctx, id, path, io.MultiWriter(w, count)) })
		} else {
			err = repo.Cat(ctx, id, path, io.MultiWriter(c.contentWriter(o), count))
		}
		if err != nil || !c.globals.json {
			return err
		}
		return c.printer().print(catSummary{"summary", id.String(), pathOf(path), count.bytes})
	})
}

// contentWriter is standard output for the bytes of a file.
func (c *cli) contentWriter(o catOptions) io.Writer {
	if c.globals.json {
		return pieceWriter{c.printer()}
	}
	if _, ok := terminal(c.rawOut); ok && o.output != "-" {
		return &textOnly{w: c.out}
	}
	return c.out
}

// writeWhole writes a file that is there when it is complete, and not before.
func writeWhole(path string, fill func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".snapctl-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // it is gone already if all went well
	err = errors.Join(fill(temp), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

type counter struct{ bytes uint64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += uint64(len(p))
	return len(p), nil
}

var errBinary = &hinted{errors.New("the file is not text, and standard output is a terminal"), "write it to a file with -o FILE, or insist with -o -"}

// textOnly lets through what a terminal can show and cannot act on: UTF-8
// without control characters but those of plain text.
type textOnly struct {
	w    io.Writer
	tail []byte // the start of a rune that the last write ended with; it is written already
}

func (t *textOnly) Write(p []byte) (int, error) {
	rest := append(t.tail, p...)
	for utf8.FullRune(rest) {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\f", r) {
			return 0, errBinary
		}
		rest = rest[n:]
	}
	t.tail = bytes.Clone(rest) // fewer than utf8.UTFMax bytes
	return t.w.Write(p)
}

// pieceWriter prints content as lines of JSON.
type pieceWriter struct{ p printer }

func (w pieceWriter) Write(p []byte) (int, error) {
	return len(p), w.p.print(pieceReport{"data", base64.StdEncoding.EncodeToString(p)})
}

type pieceReport struct {
	Type string `json:"type"`
	Data string `json:"data_b64"`
}

func (pieceReport) text(*bufio.Writer) {}

type catSummary struct {
	Type     string `json:"type"`
	Snapshot string `json:"snapshot"`
	pathFields
	Bytes uint64 `json:"bytes"`
}

func (r catSummary) text(w *bufio.Writer) { fmt.Fprintln(w, r.Bytes) }
