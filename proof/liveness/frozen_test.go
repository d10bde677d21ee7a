package liveness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
)

// stopped stops a program at each of the moments. Meanwhile the bystanders do their work, and others do what the
// program had not begun. Then the program is killed.
func (w *world) stopped(t *testing.T, op operation, moments []moment, left map[string]own) (reached int) {
	c := cells{holder: op.name + " is stopped"}
	for i, m := range moments {
		if w.frozenAt(t, &c, op, i+1, m, left) {
			reached++
		} else {
			t.Logf("%s ended before %s", op.name, label(m.statements))
		}
	}
	c.judgeAll(t)
	return reached
}

// frozenAt stops the operation at the n-th of the moments. It records its work, and returns true, if it got that far.
func (w *world) frozenAt(t *testing.T, c *cells, op operation, n int, m moment, left map[string]own) bool {
	t.Helper()
	name := fmt.Sprintf("%s %d", op.name, n)
	line := newWire()
	line.freeze = m
	own := op.prepare(w, name)
	ended, end := w.begin(op, line, name, own)
	defer end()
	select {
	case <-ended:
		return false
	case <-line.frozen:
	case <-time.After(patience):
		t.Fatalf("%s neither ends nor reaches %s", op.name, label(m.statements))
	}
	left[name] = own
	w.ok(w.until(w.Context(), "the server has done what was sent", `SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name = $1 AND state <> 'idle' AND wait_event_type NOT IN ('Client', 'Lock')`, name))
	if op.rival != "" {
		defer w.run(w.worker(op.rival))()
	}
	c.part = fmt.Sprintf("%d, before %s", n, label(m.statements))
	t.Run(c.part, func(t *testing.T) {
		w.beginAll(c, name, n, nil, op.same)
		c.judge(t)
	})
	return true
}

// finish lets another program do what is left.
func (w *world) finish(t *testing.T, op operation, name string, own own) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		// otherwise alarms would wait half a minute
		w.exec("UPDATE " + w.Schema + ".timers SET due_at = now() WHERE status = 0 AND attempts > 0")
		if err = op.run(ctx, w, w.Pool, name, own); own.done(ctx, w) == nil {
			return
		}
	}
	t.Errorf("%s: others cannot do what was left: %v", name, err)
}

// begin runs an operation as a separate program. The function end kills the program.
func (w *world) begin(op operation, line *wire, name string, own own) (ended chan error, end func()) {
	w.Helper()
	pool, leave := w.program(line, name)
	ctx, cancel := context.WithCancel(context.Background())
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- op.run(ctx, w, pool, name, own)
	}()
	end = func() { line.kill(); cancel() }
	w.Cleanup(func() { end(); <-gone; leave() }) // at the end of the test, because a worker takes a second to give up
	return ended, end
}

// program returns a pool whose connections go through a wire.
func (w *world) program(line *wire, name string) (pool *pgxpool.Pool, leave func()) {
	w.Helper()
	config, err := pgxpool.ParseConfig(w.URL)
	w.ok(err)
	config.ConnConfig.RuntimeParams["application_name"] = name
	line.through(config)
	pool, err = pgxpool.NewWithConfig(context.Background(), config)
	w.ok(err)
	return pool, pool.Close
}

// reaping is a reaper of all tables.
type reaping struct{ w *world }

func (r reaping) Run(ctx context.Context) error {
	return reaper.Run(ctx, r.w.Pool, r.w.tables(), reaper.Options{
		Schema: r.w.Schema, Interval: 500 * time.Millisecond, Lease: time.Second, Logger: logger(),
	})
}
