package main

import (
	"bufio"
)

// report is something that a command found. Its fields are its JSON form;
// Text writes what people see.
type report interface {
	text(w *bufio.Writer)
}

// printer writes reports to standard output. A query prints one report. A long
// command prints one per item and a last one of the type "summary".
type printer interface {
	print(r report) error
}

func (c *cli) printer() printer {
	if c.globals.json {
		return jsonPrinter{c.out}
	}
	return textPrinter{c.out}
}

type textPrinter struct{ w *bufio.Writer }

func (p textPrinter) print(r report) error {
	r.text(p.w)
	_, err := p.w.Write(nil) // the error that a write in r.text left, if any
	return err
}

type jsonPrinter struct{ w *bufio.Writer }

func (p jsonPrinter) print(r report) error {
	line, err := marshalLine(r)
	if err != nil {
		return err
	}
	_, err = p.w.Write(append(line, '\n'))
	return err
}
