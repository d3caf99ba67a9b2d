package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is what every error comes to once a signal has come.
var errInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return context.Canceled }

// interruptible returns a context that the first SIGINT or SIGTERM cancels, so
// that an operation can stop where it leaves no mess. The second one ends the
// process at once: an interrupted run loses time, never what was published.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}
