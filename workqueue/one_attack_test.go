package workqueue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

type panicky struct{ bounded string }

func (q panicky) Bounded(lane []any) bool { return lane[0] == q.bounded }
func (q panicky) Admit(ctx context.Context, tx pgx.Tx, _ []any, want int) (int, time.Duration, error) {
	panic("admission")
}
func (q panicky) Claimed(ctx context.Context, tx pgx.Tx, _ []any, ids []uuid.UUID) error { return nil }

func TestAttackAdmissionPanics(t *testing.T) {
	r := newRig(t, rigOptions{spec: byTopic})
	free := r.insertMany("free", 3)
	r.insertMany("bounded", 3)
	r.start(workqueue.WorkerOptions{Lanes: lanes("free", "bounded"), Admission: panicky{bounded: "bounded"}}, ackAll)
	time.Sleep(time.Second)
	t.Log("free done:", r.count("topic = 'free' AND status = 2"), "in progress:", r.count("topic = 'free' AND status = 1"), len(free))
}

type allow struct{}

func (allow) Bounded(lane []any) bool { return true }
func (allow) Admit(ctx context.Context, tx pgx.Tx, _ []any, want int) (int, time.Duration, error) {
	return want, 0, nil
}
func (allow) Claimed(ctx context.Context, tx pgx.Tx, _ []any, ids []uuid.UUID) error { return nil }

func TestAttackDrainInAdmission(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.insert("outside")
	tx, _ := r.Pool.Begin(t.Context())
	_, err := r.insertIn(tx, workqueue.NewRow{Values: []any{"inside", ""}})
	t.Log(err)
	var seen []string
	d := r.worker(workqueue.WorkerOptions{Admission: allow{}}, func(ctx context.Context, c *noteClaim) error {
		seen = append(seen, c.Body.Topic)
		return nil
	}).DrainIn(tx)
	n, err := d.Process(t.Context())
	t.Log(n, err, seen)
	tx.Rollback(t.Context())
	t.Log("in progress outside:", r.count("status = 1"), "done", r.count("status = 2"))
}

func TestAttackBadRetry(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, bad := range []string{`null`, `{}`, `"x"`, `{"base_us":"abc","cap_us":1,"growth":"constant"}`, `{"base_us":1e300,"cap_us":1e300,"growth":"constant"}`, `{"growth":"linear","base_us":-1000000000,"cap_us":5}`, `[1]`, `{"base_us":1,"cap_us":1,"jitter":"no"}`} {
		_, err := r.Pool.Exec(t.Context(), "INSERT INTO notes (topic, body, retry) VALUES ('t', '', $1::text::jsonb)", bad)
		if err != nil {
			_, err = r.Pool.Exec(t.Context(), "INSERT INTO notes (topic, retry) VALUES ('t', $1::text::jsonb)", bad)
		}
		if err != nil {
			t.Log(bad, "insert:", err)
			continue
		}
		good := r.insert("good")
		_ = good
		_, err = r.Queue.Claim(t.Context(), uuid.New(), time.Minute, 10)
		r.exec("UPDATE notes SET locked_until = now() - interval '1 minute' WHERE status = 1")
		reaped, err := r.Queue.ReapExpired(t.Context(), 100)
		t.Log(bad, "reap:", reaped, err)
		r.exec("DELETE FROM notes")
	}
}

func TestAttack200Lanes(t *testing.T) {
	r := newRig(t, rigOptions{spec: byTopic})
	var l []string
	for i := range 200 {
		l = append(l, fmt.Sprint("lane", i))
	}
	r.start(workqueue.WorkerOptions{Lanes: lanes(l...)}, ackAll)
	time.Sleep(time.Second)
	for _, n := range []int{1, 10, 100} {
		var worst, sum time.Duration
		for i := range n {
			start := time.Now()
			ids := r.insertMany(fmt.Sprint("lane", (i*37)%200), 1)
			r.awaitStatus(workqueue.Done, ids...)
			d := time.Since(start)
			sum += d
			worst = max(worst, d)
		}
		t.Log(n, "latency mean", sum/time.Duration(n), "worst", worst)
	}
}

func TestAttackSweepErrorKeepsOthers(t *testing.T) {
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Sweeps = []string{"missing", "release"} }})
	r.exec(release)
	r.insertRows(workqueue.NewRow{Values: []any{"go", ""}, Waiting: true})
	n, err := r.Queue.Sweep(t.Context(), 10)
	t.Log(n, err)
}

func TestAttackDrainCancelled(t *testing.T) {
	r := newRig(t, rigOptions{})
	for range 200 {
		r.insert("a")
		ctx, cancel := context.WithCancel(t.Context())
		d := r.worker(workqueue.WorkerOptions{}, ackAll).Drain()
		go func() { time.Sleep(time.Duration(time.Now().UnixNano()%20000) * time.Microsecond); cancel() }()
		d.Process(ctx)
		cancel()
	}
	t.Log("left in progress:", r.count("status = 1"), "ready", r.count("status = 0"))
}

func TestAttackDrainAborted(t *testing.T) {
	r := newRig(t, rigOptions{})
	tx, _ := r.Pool.Begin(t.Context())
	tx.Exec(t.Context(), "SELECT 1/0")
	d := r.worker(workqueue.WorkerOptions{}, ackAll).DrainIn(tx)
	n, err := d.Process(t.Context())
	t.Log(n, err)
	_, err = d.NextWakeAt(t.Context())
	t.Log(err)
	tx.Rollback(t.Context())
	n, err = d.Process(t.Context())
	t.Log(n, err)
	d = r.worker(workqueue.WorkerOptions{}, ackAll).DrainIn(nil)
	n, err = d.Process(t.Context())
	t.Log("nil tx:", n, err)
}
