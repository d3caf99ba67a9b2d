package main

import "time"

// repositoryClock is the time that the repository writes down and judges ages by; nil
// is time.Now. Only the program of the soak test sets it (clock_soak.go).
var repositoryClock func() time.Time
