package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine"
)

// actor is somebody at a machine.
type actor struct {
	*soak
	machine *machine
	name    string
	random  *rand.Rand
}

// run runs a command, which is perhaps stopped or killed, or has a wrong clock.
// What ends as no command should is wrong; why it failed is for the caller to judge.
func (a *actor) run(args ...string) (outcome, told) {
	a.mu.Lock()
	usual := max(a.usual[args[0]], 50*time.Millisecond)
	a.mu.Unlock()
	p := draw(a.random, usual, *soakStop)
	return a.runAs(p, args...)
}

func (a *actor) runAs(p process, args ...string) (outcome, told) {
	m := *a.machine
	p.machine, p.args = &m, append(args, "--json")
	switch {
	case args[0] == "fork":
		m.binary, p.args = a.forkPath, p.args[1:]
	case p.wrong != 0:
		m.binary = shiftedProgram(a.t)
	}
	a.mu.Lock()
	a.runs++
	n := a.runs
	a.mu.Unlock()
	a.note("%d %s begins: %s %v", n, a.name, args[0], p)
	o := p.run(a.ctx)
	why, err := o.reason()
	a.note("%d %s ends: %d after %v %s", n, a.name, o.code, o.took.Round(time.Millisecond), strings.TrimSpace(o.err))
	if err != nil && a.ctx.Err() == nil {
		a.wrong("run %d, %v: %v", n, p, err)
	}
	a.measure(p, args[0], o)
	if why.retryable() {
		a.count(&a.counts.retries)
		if o.code != exitFailed {
			a.falseAlarm(fmt.Sprintf("exit %d after a lost race", o.code))
		}
	}
	return o, why
}

// measure counts what was done to a process, and learns how long others take.
func (a *actor) measure(p process, command string, o outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.code < 0 {
		a.counts.kills++
	}
	if p.stop && o.took > p.after {
		a.counts.stops++
	}
	if !p.kill && !p.stop {
		a.usual[command] = (3*a.usual[command] + o.took) / 4
	}
}

// refuse ends the soak for a failure that has no good reason. What was killed with
// everything else has one.
func (a *actor) refuse(what string, o outcome, why told) {
	if a.ctx.Err() == nil {
		a.wrong("%s: %s: exit %d: %s", a.name, what, o.code, why.Message)
	}
}

// writer is an actor with a workspace.
type writer struct {
	*actor
	files    tree
	attempts int
	alone    bool // the local state is its own
}

func (w *writer) step() {
	many := w.ledger.count(promised) > soakKept
	switch n := w.random.IntN(100); {
	case many && n < 50, n < 15:
		w.forget()
	case n < 65:
		w.save()
	case n < 77:
		w.fork()
	case n < 86:
		w.undo()
	case n < 98:
		w.restore()
	case w.alone:
		w.note("%s loses its local state", w.name)
		if err := os.RemoveAll(w.machine.state); err != nil {
			w.t.Error(err)
		}
	}
}

// save changes a few files to what other machines have too, or had, and takes a
// snapshot.
func (w *writer) save() {
	for i := len(w.files); i < soakFiles; i++ {
		w.change(i, 0)
	}
	for range w.random.IntN(10) {
		w.change(w.random.IntN(soakFiles), w.random.Uint64N(soakVersions))
	}
	label := w.attempt(w.files)
	args := []string{"snapshot", w.machine.ws, "--source", w.name, "--label", label}
	switch w.random.IntN(8) {
	case 0:
		args = append(args, "--rescan")
	case 1:
		args = append(args, "--skip-unchanged")
	}
	o, why := w.run(args...)
	if o.code > 0 && !why.retryable() {
		w.refuse("snapshot", o, why)
	}
	w.acknowledged(o, label)
}

// change gives a file one of a few versions, none of which is like that of another file:
// what a repository takes must not depend on which of them are compressed together.
func (w *writer) change(i int, version uint64) {
	w.files.put(w.t, w.machine.ws, fmt.Sprintf("d%02d/f%03d", i%12, i), uint64(i)*soakVersions+version)
}

// attempt enters a tree under a fresh label.
func (w *writer) attempt(files tree) (label string) {
	w.attempts++
	value := fmt.Sprintf("%s.%d", w.name, w.attempts)
	w.ledger.attempt(value, files)
	return attemptLabel + "=" + value
}

// acknowledged enters the snapshot that a process says it has published, also if it
// was killed after that.
func (w *writer) acknowledged(o outcome, label string) bool {
	saved := o.saved(w.t)
	if saved == nil || saved.Snapshot == "" {
		return false
	}
	w.ledger.acknowledge(saved.Snapshot, strings.TrimPrefix(label, attemptLabel+"="))
	w.note("%s: %s is snapshot %s", w.name, label, saved.Snapshot)
	if h := w.ledger.get(saved.Snapshot); saved.Unchanged && !maps.Equal(h.files, w.files) {
		w.wrong("%s: snapshot %s is said to be the workspace, and is not", w.name, saved.Snapshot)
	}
	w.count(&w.counts.acknowledged)
	return true
}

// fork forks a snapshot, which may be forgotten and collected meanwhile.
func (w *writer) fork() {
	h, ok := w.ledger.pick(w.random, 0, promised)
	if !ok {
		return
	}
	label := w.attempt(h.files)
	o, why := w.run("fork", h.id, label)
	if o.code > 0 && !why.retryable() && w.ledger.stands(h) {
		w.refuse("fork of "+h.id, o, why)
	}
	if w.acknowledged(o, label) {
		w.count(&w.counts.forks)
	}
}

// forget forgets some snapshots, or one of which it is not known whether it is there.
func (w *writer) forget() {
	var ids []string
	if h, ok := w.ledger.pick(w.random, 0, disputed); ok && w.random.IntN(2) == 0 {
		ids = []string{h.id}
	} else {
		ids = w.someOf(w.ledger.count(promised) - 4)
	}
	if len(ids) == 0 {
		return
	}
	handles := w.ledger.dispute(ids...)
	o, why := w.run(append([]string{"forget", "--force"}, ids...)...)
	w.ledger.resolve(handles, o, forgotten)
	if o.code > 0 && !strings.Contains(why.Message, "not found") { // another machine was faster
		w.refuse("forget", o, why)
	}
	for range ids {
		if o.code == exitDone {
			w.count(&w.counts.forgotten)
		}
	}
}

// someOf picks a few promised snapshots, not more than most.
func (w *writer) someOf(most int) (ids []string) {
	for range min(1+w.random.IntN(3), most) {
		if h, ok := w.ledger.pick(w.random, 0, promised); ok && !slices.Contains(ids, h.id) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// undo takes back that a snapshot was forgotten, unless a collection was faster.
func (w *writer) undo() {
	h, ok := w.ledger.pick(w.random, 5, forgotten, disputed)
	if !ok {
		return
	}
	handles := w.ledger.dispute(h.id)
	o, why := w.run("forget", "--undo", h.id)
	w.ledger.resolve(handles, o, promised)
	if o.code == exitDone {
		w.count(&w.counts.undone)
	}
	gone := strings.Contains(why.Message, "not found") || strings.Contains(why.Message, engine.ErrCollected.Error())
	if o.code > 0 && !gone && !why.retryable() {
		w.refuse("undo", o, why)
	}
}

// restore brings a snapshot back, into a new directory or over another snapshot.
func (a *actor) restore() {
	h, ok := a.ledger.pick(a.random, 0, promised)
	if !ok {
		return
	}
	a.restoreOne(h, a.run)
}

func (a *actor) restoreOne(h handle, run func(...string) (outcome, told)) {
	target := filepath.Join(a.machine.dir, "restored")
	if a.random.IntN(3) == 0 {
		if err := os.RemoveAll(target); err != nil {
			a.t.Error(err)
		}
	}
	o, why := run("restore", h.id, target, "--delete")
	if o.code > 0 && (a.ledger.stands(h) || !strings.Contains(why.Message, "not found")) {
		a.refuse("LOST: restore of "+h.id, o, why)
	}
	if o.code != exitDone {
		return
	}
	if wrong := h.files.compare(target); wrong != "" {
		a.wrong("%s: LOST: snapshot %s: %s", a.name, h.id, wrong)
	}
	a.count(&a.counts.restored)
}

// collect collects, with whatever options.
func (a *actor) collect() {
	one := func(values ...string) string { return values[a.random.IntN(len(values))] }
	args := []string{"gc", "--undo-window", one("0", "0", "1m", "1d"), "--grace", one("0", "0", "1m", "1d"), "--max-unused", one("0%", "5%", "50%", "unlimited")}
	switch a.random.IntN(10) {
	case 0:
		args = append(args, "--max-duration", "1s")
	case 1:
		args = append(args, "--max-repack", "200K")
	case 2:
		args = append(args, "--dry-run")
	}
	a.collecting.RLock()
	o, why := a.run(args...)
	a.collecting.RUnlock()
	reason := overtaken(why)
	switch {
	case strings.Contains(why.Message, "no known pack holds"):
		a.alarm("loss seen by gc", "gc")
	case reason != "":
		a.falseAlarm(reason)
	case o.code > 0 && o.code != exitIncomplete:
		a.refuse("collection", o, why)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case o.code < 0:
		a.counts.killedCollections++
	case o.code == exitFailed || o.code == exitDamaged:
		a.counts.overtaken++
	default:
		a.counts.collections++
	}
	var summary collectSummary
	lines := strings.Split(strings.TrimSpace(o.out), "\n")
	if json.Unmarshal([]byte(lines[len(lines)-1]), &summary) == nil && !summary.DryRun {
		a.counts.deleted += summary.Deleted
	}
}

// overtaken says how the others made a collection give up: they did not let it see a
// repository at rest, or took a pack from under its copying. The next one goes on.
func overtaken(why told) string {
	switch {
	case strings.Contains(why.Message, "again and again"):
		return "no rest for gc"
	case strings.Contains(why.Message, "get packs/") && strings.Contains(why.Message, "object does not exist"):
		return "pack gone under gc"
	}
	return ""
}

// inspect looks at the repository as a machine that knows nothing of it.
func (a *actor) inspect() {
	if err := os.RemoveAll(a.machine.state); err != nil {
		a.t.Error(err)
	}
	a.list()
	a.restore()
	if a.random.IntN(4) == 0 {
		a.check()
	}
}

func (a *actor) check() {
	o, why := a.run("check")
	switch {
	case o.code == exitDamaged:
		a.alarm("damage seen by check", "check")
	case o.code > 0:
		a.refuse("check", o, why)
	case o.code == exitDone:
		a.count(&a.counts.checks)
	}
}

// alarm runs a command again that saw damage or a loss beside a collection, while
// nobody collects. If it sees that again, it is true: what collections delete between two
// listings of another process is none.
func (a *actor) alarm(what, command string) {
	a.collecting.Lock()
	defer a.collecting.Unlock()
	o, why := a.runAs(process{}, command)
	if o.code != exitDone {
		a.refuse("LOST: "+what, o, why)
		return
	}
	a.falseAlarm(what)
}

// list compares a listing with what has to be in it.
func (a *actor) list() []listed {
	before := a.ledger.all()
	o, why := a.runAs(process{}, "list")
	if o.code != exitDone {
		a.refuse("list", o, why)
		return nil
	}
	var listing struct{ Snapshots []listed }
	if err := json.Unmarshal([]byte(o.out), &listing); err != nil {
		a.wrong("list: %v: %s", err, o.out)
	}
	v := a.ledger.compare(before, listing.Snapshots)
	if len(v.lost)+len(v.back)+len(v.stranger) > 0 {
		a.wrong("%s: LOST: promised, but not listed: %q; forgotten, but listed: %q; of nobody: %q", a.name, v.lost, v.back, v.stranger)
	}
	return listing.Snapshots
}
