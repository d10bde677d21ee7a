package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// byTopic makes the topic the lane.
func byTopic(s *workqueue.Spec) { s.Lanes = []string{"topic"} }

func lanes(topics ...string) [][]any {
	all := make([][]any, len(topics))
	for i, topic := range topics {
		all[i] = []any{topic}
	}
	return all
}

// serving makes the rig start workers that serve these lanes.
func (r *rig) serving(lanes [][]any) *rig {
	other := *r
	other.Domain.Lanes = lanes
	return &other
}

// orderOf collects the topics of the rows that a worker with one handler handles, in order.
type orderOf struct {
	mu     sync.Mutex
	topics []string
}

func (o *orderOf) handle(_ context.Context, c *noteClaim) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.topics = append(o.topics, c.Body.Topic)
	return nil
}

func TestUrgentLanesGoFirstAndNoneStarves(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byTopic})
	late := r.insertMany("late", 5)
	// The eighth claim begins with the late lane. The seven before it take at most 1 + 2 + … + 64 rows.
	urgent := r.insertMany("urgent", 200)
	r.insertMany("elsewhere", 1)
	var order orderOf
	r.serving(lanes("urgent", "late")).start(workqueue.WorkerOptions{Concurrency: 1, ClaimLimit: 1}, order.handle)
	r.awaitStatus(workqueue.Done, append(late, urgent...)...)

	order.mu.Lock()
	defer order.mu.Unlock()
	if first := slices.Index(order.topics, "late"); first < 1 || first > 127 {
		t.Errorf("the first late row is number %d of %s", first, strings.Join(order.topics, " "))
	}
	if n := r.count("topic = 'elsewhere' AND status = 0"); n != 1 {
		t.Error("a row of a lane that the worker does not serve was claimed")
	}
}

func TestLanesThatAWorkerCannotServe(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byTopic})
	for name, l := range map[string][][]any{
		"none":            nil,
		"too few values":  {{}},
		"too many values": {{"a", "b"}},
		"the wrong type":  {{"a"}, {time.Now()}},
	} {
		if _, err := workqueue.NewWorker(r.Pool, r.serving(l).Domain, ackAll,
			workqueue.WorkerOptions{}); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lanes of one claim, whatever their type: rows come lane by lane, and no more than the limit.
func TestLanesOfEveryType(t *testing.T) {
	t.Parallel()
	moment := time.Date(2025, 1, 1, 12, 0, 0, 123456000, time.UTC)
	for typ, values := range map[string][2]any{
		"bigint": {int64(2), int64(1)}, "boolean": {true, false}, "bytea": {[]byte("b"), []byte("a")},
		"date":             {moment, moment.AddDate(0, 0, -1)},
		"double precision": {2.5, 1.5}, "integer": {2, 1}, "numeric": {"2.5", "1.5"}, "smallint": {int16(2), int16(1)},
		"text": {"b", "a"}, "timestamptz": {moment, moment.Add(-time.Microsecond)},
		"uuid": {uuid.UUID{2}, uuid.UUID{1}},
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) {
				s.Columns = append(s.Columns, workqueue.Column{Name: "lane", Type: typ, NotNull: true})
				s.Lanes = []string{"lane"}
			}})
			insert := func(n int, value any) {
				for range n {
					r.insertRows(workqueue.NewRow{Values: []any{fmt.Sprint(value), "", value}})
				}
			}
			insert(3, values[1]) // due before the rows of the first lane
			insert(3, values[0])
			r.exec("VACUUM ANALYZE notes")
			var order orderOf
			domain := workqueue.Domain[note]{Table: r.Table,
				Columns: func(n *note, c *workqueue.Columns) {
					n.columns(c)
					c.Field(r.Table.Spec().Columns[2], new(any))
				},
				Lanes: [][]any{{values[0]}, {values[1]}}}
			w, err := workqueue.NewWorker(r.Pool, domain, order.handle, workqueue.WorkerOptions{Concurrency: 1})
			if err != nil {
				t.Fatal(err)
			}
			d := r.drain(w.Drain())
			for _, limit := range []int{2, 2, 1, 1} {
				d.Limit = limit
				r.process(d, limit)
			}
			want := fmt.Sprint(values[0])
			for i, topic := range order.topics {
				if (topic == want) != (i < 3) {
					t.Fatalf("handled in the order %v", order.topics)
				}
			}
		})
	}
}

// release is a sweep that releases waiting rows.
const release = `CREATE FUNCTION notes_release(max_rows integer) RETURNS integer LANGUAGE sql AS $$
	WITH freed AS (
		UPDATE notes SET waiting = false, due_at = greatest(due_at, clock_timestamp())
		WHERE waiting AND topic = 'go' RETURNING 1)
	SELECT count(*)::int FROM freed $$`

func TestWaitingRowsAreClaimedWhenASweepReleasesThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"release"} }})
	r.exec(release)
	var rows []workqueue.NewRow
	for _, topic := range []string{"go", "go", "stay"} {
		rows = append(rows, workqueue.NewRow{Values: []any{topic, ""}, Waiting: true})
	}
	ids := r.insertRows(rows...)
	r.start(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	r.awaitStatus(workqueue.Done, ids[:2]...)
	more := r.insertRows(rows[0])
	r.awaitStatus(workqueue.Done, more...)
	if row := r.row(ids[2]); row.Status != workqueue.Ready || row.Attempts != 0 {
		t.Errorf("a waiting row was claimed: %+v", row)
	}
	s, err := r.Queue.Stats(t.Context())
	if err != nil || s.Waiting != 1 || s.Ready != 0 {
		t.Errorf("stats are %+v, %v", s, err)
	}
}

func TestFailingSweepKeepsNoRowFromBeingClaimed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"missing"} }})
	ids := r.insert("a")
	r.start(workqueue.WorkerOptions{}, ackAll)
	r.awaitStatus(workqueue.Done, ids...)
	r.eventually("the failure to be logged", func() bool { return strings.Contains(r.Logs.String(), "notes_missing") })
}

// A sweep waits for a lock without an end. Claims do not wait for the sweep.
func TestSweepThatWaitsDelaysNoClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"waits"} }})
	r.exec("CREATE TABLE cursors ()")
	r.exec("CREATE FUNCTION notes_waits(max_rows integer) RETURNS integer LANGUAGE sql AS 'LOCK TABLE cursors; " +
		"SELECT 0'")
	holder, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.Background())
	if _, err := holder.Exec(t.Context(), "LOCK TABLE cursors"); err != nil {
		t.Fatal(err)
	}
	r.start(workqueue.WorkerOptions{}, ackAll)
	waitsSince := func() time.Time {
		return ask[time.Time](r, "SELECT coalesce(max(waitstart), 'epoch') FROM pg_locks WHERE relation = "+
			"'cursors'::regclass AND NOT granted")
	}
	r.eventually("rows to be done while the sweep waits", func() bool {
		since := waitsSince()
		if since.Unix() == 0 {
			return false
		}
		r.awaitStatus(workqueue.Done, r.insert("a")...) // one row: the wait is short on a busy machine
		return waitsSince().Equal(since)
	})
}

// The worker and the reaper both use a row's own backoff.
func TestBackoffOfTheRowsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retry   workqueue.Retry
		attempt int
		want    time.Duration
	}{
		"constant": {workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}, 3, time.Hour},
		"linear": {workqueue.Retry{Growth: workqueue.Linear, Base: time.Hour, Cap: 24 * time.Hour}, 3,
			3 * time.Hour},
		"quadratic": {workqueue.Retry{Growth: workqueue.Quadratic, Base: time.Hour, Cap: 24 * time.Hour}, 3,
			9 * time.Hour},
		"exponential": {workqueue.Retry{Growth: workqueue.Exponential, Base: time.Hour, Cap: 24 * time.Hour}, 3,
			4 * time.Hour},
		"capped": {workqueue.Retry{Growth: workqueue.Exponential, Base: time.Hour, Cap: 2 * time.Hour}, 3,
			2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			row := workqueue.NewRow{Values: []any{"a", ""}, Retry: c.retry, MaxAttempts: 5}
			ids := r.insertRows(row, row)
			r.exec("UPDATE notes SET attempts = $1", c.attempt-1)
			rows, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 2)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Queue.Retry(t.Context(), rows[0].Token, ids[:1], "reported"); err != nil {
				t.Fatal(err)
			}
			r.exec("UPDATE notes SET locked_until = now() - interval '1 microsecond' WHERE status = 1")
			if _, err := r.Queue.ReapExpired(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			for i, how := range []string{"reported", "reaped"} {
				if in := r.row(ids[i]).DueIn; in > c.want || in < c.want-slack {
					t.Errorf("%s: due in %v, want %v", how, in, c.want)
				}
			}
		})
	}
}

func TestBadBackoffOfTheRowsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for _, retry := range []workqueue.Retry{{Base: 1}, {Growth: 9, Cap: 1}, {Growth: workqueue.Linear, Base: 2,
		Cap: 1}} {
		if err := r.Table.Check(&workqueue.NewRow{Values: []any{"a", ""}, Retry: retry}); !errors.Is(err,
			workqueue.ErrInvalid) {
			t.Error(fmt.Sprint(retry), err)
		}
	}
}

func TestFailingSweepKeepsNoOtherFromItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"missing", "release"} }})
	r.exec(release)
	r.insertRows(workqueue.NewRow{Values: []any{"go", ""}, Waiting: true})
	if n, err := r.Queue.Sweep(t.Context(), 10); n != 1 || err == nil {
		t.Errorf("released %d rows, %v; want 1 and the other sweep's error", n, err)
	}
}

// Such a row would fail the reaper's batches for ever.
func TestPlainSQLCannotWriteABadBackoff(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for _, bad := range []string{
		`{"base_us": 1, "cap_us": 1}`, `{"base_us": 1, "cap_us": 1, "growth": "Exponential"}`,
		`null`, `{}`, `"x"`, `{"base_us": "soon", "cap_us": 1}`, `{"base_us": -1, "cap_us": 1}`,
		`{"base_us": 1, "cap_us": 1e300}`, `{"base_us": 1, "cap_us": 1, "jitter": 2}`,
		`{"base_us": 1e308, "cap_us": 1, "growth": "exponential"}`, `{"base_us": "NaN", "cap_us": 1}`,
		`{"base_us": 1, "cap_us": "NaN"}`,
		`{"base_us": 5e-324, "cap_us": 1, "jitter": 1}`, `{"base_us": 1, "cap_us": 5e-324, "jitter": 1}`,
		`{"base_us": 1, "cap_us": 1, "jitter": 5e-324}`,
	} {
		if _, err := r.Pool.Exec(t.Context(), "INSERT INTO notes (topic, retry) VALUES ('t', $1::text::jsonb)",
			bad); err == nil || !strings.Contains(err.Error(), "SQLSTATE 2") {
			t.Errorf("%s: %v, want it refused", bad, err)
		}
	}
	r.exec(`INSERT INTO notes (topic, retry) VALUES ('t', '{"growth": "linear", "base_us": 0, "cap_us": 1}')`)
}
