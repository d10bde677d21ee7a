package join_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// newKeyed is a table with joins and keyed rows.
func newKeyed(t *testing.T) *fixture {
	t.Helper()
	var spec workqueue.Spec
	f := newFixture(t, func(s *workqueue.Spec) {
		s.Columns = append(s.Columns, workqueue.ColumnsOf(keys)...)
		s.Sweeps = append(s.Sweeps, keyed.SweepSuffix)
		s.Folds = append(s.Folds, keyed.Fold)
		s.KeyColumn = keyed.KeyColumn
		spec = *s
	})
	rules, _, err := keyed.DDL(spec)
	f.ok(err)
	f.exec(rules)
	return f
}

// through gives a row a key; nil means none.
func through(g keyed.Rule) func(*workqueue.NewRow) {
	return func(r *workqueue.NewRow) { r.Values = append(r.Values, keyValues(g)...) }
}

var rules = map[string]keyed.Rule{"serial": keyed.Ordered{Key: "k"}, "limited": keyed.Limited{Key: "k", MaxRunning: 1}}

// A row that waits for its key cannot be a continuation: it would not wait for the join, but run when its key has room.
func TestARowThatOnlyItsKeyHoldsContinuesNoJoin(t *testing.T) {
	t.Parallel()
	for name, g := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newKeyed(t)
			step := f.steps(1, through(nil))
			rows := f.steps(2, through(g)) // at least the second one waits
			equal(t, f.fate(rows[1]), waits)
			_, err := f.start(join.Join{Members: step, OnComplete: rows[1]})
			if !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("error %v, want it refused", err)
			}
			_, err = f.start(join.Join{Members: rows}) // they may be steps
			f.ok(err)
		})
	}
}

func TestAReleasedRowEntersItsKey(t *testing.T) {
	t.Parallel()
	for name, g := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newKeyed(t)
			f.wantReleased(g, func(uuid.UUID) {})
			f.wantReleased(g, f.cancelAndRedrive)
		})
	}
}

// wantReleased ends a join while another row of its continuation's key is released.
func (f *fixture) wantReleased(g keyed.Rule, before func(continuation uuid.UUID)) {
	f.Helper()
	other := f.steps(1, through(g), due)
	f.fold()
	token := f.claim(other...)
	step, next := f.steps(1, through(nil)), f.steps(1, waiting, through(g), due)
	ids, err := f.start(join.Join{Members: step, OnComplete: next[0]})
	f.ok(err)
	before(next[0])
	f.fold()
	f.ack(step...)
	f.want(ids[0], counts{join.Completed, 1, 0, 0})
	f.fold()
	equal(f, f.fate(next[0]), waits)
	_, err = f.queue.Ack(f.Context(), token, other)
	f.ok(err)
	f.fold()
	equal(f, f.fate(next[0]), released)
	f.ack(next...)
}

func due(r *workqueue.NewRow) { r.DueAt = time.Time{} }

// cancelAndRedrive makes the continuation wait for its key, and no longer for its join.
func (f *fixture) cancelAndRedrive(continuation uuid.UUID) {
	f.Helper()
	_, err := f.queue.Cancel(f.Context(), []uuid.UUID{continuation}, "no")
	f.ok(err)
	_, err = f.queue.Redrive(f.Context(), []uuid.UUID{continuation}, "yes")
	f.ok(err)
}

func equal(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// keys are the columns of a rule, and keyValues their values.
func keys(r *keyed.Rule, c *workqueue.Columns) { keyed.Columns(c, *r) }

func keyValues(r keyed.Rule) []any { return workqueue.ValuesOf(&r, keys) }
