package liveness

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Programs are disturbed at everything that they send: they are stopped before it, or the server refuses it. Meanwhile
// the bystanders do their work. In the end, others finish the work of the programs.
func TestPrograms(t *testing.T) {
	t.Parallel()
	var stops, refused sorts
	t.Cleanup(func() {
		// A program sends less if others have done some of the work since its statements were listed.
		if planned, reached := stops.planned.Load(), stops.reached.Load(); reached < planned/3 || reached == 0 {
			t.Errorf("programs were stopped only %d times of %d", reached, planned)
		}
	})
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(op.rival)
			w.run(reaping{w})
			left := map[string]own{}
			sent := w.sentBy(t, op)
			moments := stops.moments(w, op, sent)
			stops.planned.Add(int64(len(moments)))
			stops.reached.Add(int64(w.stopped(t, op, moments, left)))
			w.refused(t, op, refused.statements(w, op, sent), left)
			if op.rival != "" {
				w.run(w.worker(op.rival))
			}
			for name, own := range left {
				w.finish(t, op, name, own)
			}
			w.settled(t)
		})
	}
}

// sentBy returns what an operation sends if nothing disturbs it.
func (w *world) sentBy(t *testing.T, op operation) []moment {
	t.Helper()
	line, name := newWire(), op.name
	own := op.prepare(w, name)
	ended, end := w.begin(op, line, name, own)
	select {
	case <-ended:
	case <-time.After(patience):
		w.Fatalf("%s does not end:%s", op.name, w.left("jobs", "true"))
	}
	end()
	w.finish(t, op, name, own)
	return line.sent()
}

// sorts are the sorts of statements at which programs were disturbed. Programs repeat many statements, and share many
// with others: except at full size, each sort is disturbed only once.
type sorts struct {
	met              sync.Map
	planned, reached atomic.Int64
}

func (s *sorts) isNew(w *world, op operation, sent ...string) bool {
	_, met := s.met.LoadOrStore(strings.ReplaceAll(fmt.Sprint(sent), w.Schema, ""), true)
	return *full && !op.restless || !met
}

// moments returns those at which a program is to be stopped.
func (s *sorts) moments(w *world, op operation, sent []moment) (moments []moment) {
	for _, m := range sent {
		if s.isNew(w, op, m.statements...) {
			moments = append(moments, m)
		}
	}
	return moments
}

// statements returns those that the server is to refuse, each once.
func (s *sorts) statements(w *world, op operation, sent []moment) (statements []string) {
	for _, m := range sent {
		for _, sql := range m.statements {
			if !slices.Contains(statements, sql) && s.isNew(w, op, sql) {
				statements = append(statements, sql)
			}
		}
	}
	return statements
}
