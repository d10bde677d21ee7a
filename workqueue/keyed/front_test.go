package keyed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// If workers cannot keep up, a row with a key runs together with the rows without a key that were due at the same time:
// it keeps its due time when it is released.
func TestRowsOfAKeyKeepTheirPlaceInABacklog(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]keyed.Rule{
		"ordered": serial("k"),
		"limited": keyed.Limited{Key: "k", MaxRunning: 1},
		"rate":    keyed.Limited{Key: "k", MaxRunning: 1, Rate: keyed.MaxRate, Burst: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newBacklog(t, g, nil).keepsPlaces()
		})
	}
	t.Run("in a lane", func(t *testing.T) {
		t.Parallel()
		newBacklog(t, serial("k"), []any{"the \"big\" <one> \\ \t über", 3}).keepsPlaces()
	})
}

const (
	every = 10                    // one row in this many has a key
	work  = 20 * time.Millisecond // for a row without a key: a worker fetches the rows of 100 ms in advance
)

// A backlog has rows that were due one after the other, all of them long ago.
type backlog struct {
	*rig
	lanes [][]any
	rows  int

	started atomic.Int64
	ended   atomic.Int64 // rows with a key
}

func newBacklog(t *testing.T, g keyed.Rule, lane []any) *backlog {
	t.Helper()
	b := &backlog{rows: pgtest.Size(4, 20) * every}
	b.rig = newRig(t, func(s *workqueue.Spec) {
		if lane != nil {
			b.lanes = [][]any{lane}
			s.Columns = append(s.Columns, workqueue.Column{Name: "queue", Type: "text", NotNull: true},
				workqueue.Column{Name: "priority", Type: "smallint", NotNull: true})
			s.Lanes = []string{"queue", "priority"}
		}
	})
	batch := make([]workqueue.NewRow, b.rows)
	for i := range batch {
		batch[i] = row(i, keyed.None{})
		if i%every == 0 {
			batch[i] = row(i, g)
		}
		batch[i].Values = append(batch[i].Values, lane...)
	}
	b.insert(batch...)
	b.exec("UPDATE work SET due_at = now() - interval '1 hour' + n * interval '1 second'")
	return b
}

// handle waits until the rows of the key that have ended are settled and the key's next row is released.
func (b *backlog) handle(_ context.Context, c *workqueue.Claim[body]) error {
	place := b.started.Add(1) - 1
	if c.Body.Key == nil {
		pgtest.Pass(work)
		b.eventually("the key's next row", func() bool {
			return ask[bool](b.rig, `SELECT count(*) FILTER (WHERE completed_at IS NOT NULL) >= $1
				AND (bool_or(completed_at IS NULL AND NOT waiting) OR NOT bool_or(waiting))
				FROM work WHERE concurrency_key IS NOT NULL`, b.ended.Load())
		})
		return nil
	}
	if late := place - c.Body.N; late > every {
		b.Errorf("row %d starts as number %d", c.Body.N, place)
	}
	b.ended.Add(1)
	return nil
}

func (b *backlog) keepsPlaces() {
	b.workIn(b.lanes, workqueue.WorkerOptions{Concurrency: 1, ClaimLimit: 1, PollInterval: time.Hour}, b.handle)
	b.eventually("the last row", func() bool { return b.started.Load() == int64(b.rows) })
}
