package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
)

// soakClock is how wrong the clock of a process is: for clock_soak.go and clock_test.go.
const soakClock = "TEST_CLOCK"

// shifted is the program with a clock that can be set, built once.
var shifted = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built.dir, "snapctl-shifted")
	build := exec.Command("go", "build", "-tags", "soak", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// shiftedProgram lies beside the other one and is removed with it.
func shiftedProgram(t *testing.T) string {
	t.Helper()
	program(t)
	path, err := shifted()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// soakFork SNAP KEY=VALUE is a program of its own in the binary of the tests, since
// snapctl has no command that forks. It prints the id of the fork.
func soakFork() {
	c := &cli{in: os.Stdin, rawOut: os.Stdout, out: bufio.NewWriter(os.Stdout), env: environ{os.LookupEnv}}
	c.talk = newTalker(os.Stderr, c.env)
	c.talk.json, c.globals.json = true, true
	c.globals.keys.insecure, c.globals.network.cacheSize = true, defaultCacheSize
	ctx := interruptible()
	labels, err := parseLabels(os.Args[2:3])
	if err == nil {
		err = c.withSnapshot(ctx, os.Args[1], chooseOptions{}, func(repo *engine.Repository, id engine.ID) error {
			fork, err := repo.Fork(ctx, id, engine.ForkOptions{Labels: labels})
			if err != nil {
				return err
			}
			return c.printer().print(showReport{manifestReportOf(fork), nil})
		})
	}
	c.out.Flush()
	os.Exit(c.finish(ctx, err))
}

// process is one run of a program in a soak: its machine, and what happens to it.
type process struct {
	machine *machine
	args    []string
	wrong   time.Duration // of its clock
	kill    bool
	stop    bool
	after   time.Duration // when it is stopped, or killed
	pause   time.Duration // how long it is stopped; one that is to be killed is killed then
}

func (p process) String() string {
	text := fmt.Sprintf("%s: %s", filepath.Base(p.machine.dir), strings.Join(p.args, " "))
	if p.wrong != 0 {
		text += fmt.Sprintf(", clock %+v", p.wrong)
	}
	if p.stop {
		text += fmt.Sprintf(", stopped after %v for %v", p.after, p.pause)
	}
	if p.kill {
		text += fmt.Sprintf(", killed after %v", p.after)
	}
	return text
}

// maxWrong is how wrong clocks are.
const maxWrong = 26 * time.Hour

// draw decides what happens to a run of a command that takes about as long as usual.
func draw(random *rand.Rand, usual, longest time.Duration) process {
	var p process
	switch random.IntN(4) {
	case 0:
		p.wrong = []time.Duration{-maxWrong, maxWrong}[random.IntN(2)]
	case 1:
		p.wrong = time.Duration(random.Int64N(int64(2*maxWrong))) - maxWrong
		p.wrong = p.wrong.Round(time.Minute)
	}
	p.after = time.Duration(random.Int64N(int64(usual + usual/8)))
	switch random.IntN(10) {
	case 0, 1, 2:
		p.kill = true
	case 3, 4:
		p.stop, p.pause = true, time.Duration(random.Int64N(int64(longest)))
		p.pause /= time.Duration(1 + random.IntN(10)) // most stops are short
		p.kill = random.IntN(6) == 0
	}
	return p
}

// run runs the process to its end. It is killed at once when ctx ends.
func (p process) run(ctx context.Context) outcome {
	m := *p.machine
	m.env = append(slices.Clone(m.env), soakClock+"="+p.wrong.String())
	cmd, wait := m.start(p.args...)
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	send := func(s os.Signal) func() { return func() { cmd.Process.Signal(s) } } // nothing happens to one that has ended
	switch {
	case p.stop:
		end := send(syscall.SIGCONT)
		if p.kill {
			end = send(os.Kill)
		}
		defer time.AfterFunc(p.after, func() { // one after the other, however short the pause
			send(syscall.SIGSTOP)()
			time.AfterFunc(p.pause, end)
		}).Stop()
	case p.kill:
		defer time.AfterFunc(p.after, send(os.Kill)).Stop()
	}
	return wait()
}

// told is what a command that failed said last.
type told struct {
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// reason returns why a command failed, as it said with --json. An error says that it
// did not tell, or ended as no command should.
func (o outcome) reason() (told, error) {
	for _, sign := range []string{"panic:", "fatal error:", "goroutine ", "DATA RACE"} {
		if strings.Contains(o.err, sign) {
			return told{}, fmt.Errorf("it crashed: %s", o.err)
		}
	}
	if o.code <= 0 {
		return told{}, nil
	}
	if exitMeanings[o.code] == "" {
		return told{}, fmt.Errorf("exit code %d has no meaning: %s", o.code, o.err)
	}
	lines := strings.Split(strings.TrimSpace(o.err), "\n")
	var last told
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "error" || last.Code != o.code || last.Message == "" {
		return told{}, fmt.Errorf("exit code %d without a reason: %q", o.code, o.err)
	}
	return last, nil
}

// retryable reports whether a collection overtook the command, which asks to be run again.
func (r told) retryable() bool { return strings.Contains(r.Message, engine.ErrRetry.Error()) }
