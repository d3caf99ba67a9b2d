package main

import (
	"os"
	"time"
)

// A script gives the programs that it runs another clock by TEST_CLOCK: a length of
// time that is added to the machine's.
func init() {
	text, ok := os.LookupEnv("TEST_CLOCK")
	if !ok || text == "" {
		return
	}
	wrong, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	repositoryClock = func() time.Time { return time.Now().Add(wrong) }
}
