package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// Walk makes random schedules of a scenario, from its beginning to an end, for those
// that are too large to be searched. Every request is also made to a store of package
// mem, which must answer the same.
func Walk(t *testing.T, scenario *Scenario, seed uint64, schedules int) Report {
	t.Helper()
	start := time.Now()
	report := Report{Outcomes: map[string]int{}}
	perform(t, scenario, func(t *testing.T, s *stage) {
		w := walk{stage: s, rand: rand.New(rand.NewPCG(seed, 0)), report: &report}
		for range schedules {
			if err := w.schedule(t.Context()); err != nil {
				t.Fatal(err)
			}
			if report.Violation != nil {
				break
			}
		}
		report.Histories, report.Runs, report.Steps = len(s.histories.all), s.histories.runs, s.histories.steps
	})
	report.Duration = time.Since(start)
	return report
}

type walk struct {
	*stage
	rand   *rand.Rand
	report *Report
}

func (w *walk) schedule(ctx context.Context) error {
	at, err := w.begin()
	if err != nil {
		return err
	}
	store := mem.New()
	for _, c := range at.store {
		if _, err := store.Put(ctx, w.objects.keys[c.key], bytes.NewReader(w.objects.contents[c.content]), objectstore.PutOptions{}); err != nil {
			return err
		}
	}
	var moves []move
	for last := (move{actor: -1}); ; {
		all := w.moves(at)
		if len(all) == 0 {
			break
		}
		last = w.choose(all, last)
		moves = append(moves, last)
		if err := w.compare(ctx, store, at, last); err != nil {
			return fmt.Errorf("%w\nafter\n%s", err, w.tellSchedule(moves))
		}
		if at, err = w.make(at, last); err != nil {
			return err
		}
		w.report.Transitions++
		if err := w.verdict(at); err != nil {
			w.report.Violation = &Violation{err, w.tellSchedule(moves)}
			return nil
		}
	}
	w.report.Schedules++
	w.report.Depth = max(w.report.Depth, len(moves))
	w.report.count(w.stage, at)
	return nil
}

// choose lets the actor of the last move go on, mostly, and everything be answered,
// mostly: else no actor would ever come far without being interrupted.
func (w *walk) choose(all []move, last move) move {
	for range 10 {
		m := all[w.rand.IntN(len(all))]
		if (m.actor == last.actor || w.rand.IntN(4) == 0) && (m.how == answered || m.how == delivered || w.rand.IntN(8) == 0) {
			return m
		}
	}
	return all[w.rand.IntN(len(all))]
}

// compare makes the request of a move to a real store, if it takes effect.
func (w *walk) compare(ctx context.Context, store *mem.Store, at *state, m move) error {
	var r request
	switch {
	case m.how == delayed:
		return nil
	case m.how == delivered:
		r = w.mutations.all[at.late[m.late]]
	default:
		r = w.histories.all[at.actors[m.actor]].waiting[m.call]
	}
	_, want := w.objects.apply(at.store, r)
	got, err := w.objects.perform(ctx, store, r)
	if err == nil && got != want {
		err = fmt.Errorf("%s: the memory store answers %+v, and this one %+v", w.objects.describe(r), got, want)
	}
	return err
}

// perform makes a request to a real store.
func (o *objects) perform(ctx context.Context, store objectstore.Store, r request) (reply, error) {
	name := o.keys[r.key]
	var err error
	var answer reply
	switch r.op {
	case opPut:
		answer.content = r.content
		_, err = store.Put(ctx, name, bytes.NewReader(o.contents[r.content]), r.options)
	case opDelete:
		err = store.Delete(ctx, name)
	case opList:
		return o.performList(ctx, store, r)
	default: // a part is cut out of the whole by the port
		var body io.ReadCloser
		if body, err = store.Get(ctx, name, objectstore.Range{}); err == nil {
			var data []byte
			data, err = io.ReadAll(body)
			answer.content = o.content(data)
			if _, rangeErr := r.part.Within(int64(len(data))); r.op == opGet && rangeErr != nil {
				err = rangeErr
			}
		}
	}
	for f, known := range failures {
		if known != nil && errors.Is(err, known) {
			return reply{failure: failure(f)}, nil
		}
	}
	return answer, err
}

func (o *objects) performList(ctx context.Context, store objectstore.Store, r request) (reply, error) {
	var found cells
	for info, err := range store.List(ctx, o.keys[r.key], r.after) {
		if err != nil {
			return reply{}, err
		}
		if r.page > 0 && len(found) == r.page {
			return reply{listing: encodeCells(found), more: true}, nil
		}
		data, err := objectstore.ReadAll(ctx, store, info.Key, 1<<30)
		if err != nil {
			return reply{}, err
		}
		found = append(found, cell{o.key(info.Key), o.content(data)})
	}
	return reply{listing: encodeCells(found)}, nil
}
