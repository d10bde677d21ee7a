package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A forgetfulConn loses a reply that has a given text, and then ends. What was sent is committed by then: the server
// says so, by ReadyForQuery, after it has committed what was sent at once.
type forgetfulConn struct {
	net.Conn
	forget atomic.Pointer[string]
	lost   *atomic.Int64
}

func (c *forgetfulConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if text := c.forget.Load(); text != nil && bytes.Contains(p[:n], []byte(*text)) &&
		bytes.HasSuffix(p[:n], []byte("Z\x00\x00\x00\x05I")) {
		c.forget.Store(nil)
		c.lost.Add(1)
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// loseReply gives connections a tracer that makes them lose replies, and counts these.
func loseReply(c *pgxpool.Config, tracer pgx.QueryTracer, lost *atomic.Int64) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &forgetfulConn{Conn: conn, lost: lost}, err
	}
	c.ConnConfig.Tracer = tracer
}

// A settleForgetter makes the first settle after armed was set lose its reply.
type settleForgetter struct{ armed *atomic.Bool }

func (f settleForgetter) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData) context.Context {
	isSettle := slices.ContainsFunc(data.Batch.QueuedQueries, func(q *pgx.QueuedQuery) bool {
		return strings.Contains(q.SQL, "SET status = 2") || strings.Contains(q.SQL, "abandoned without")
	})
	if isSettle && f.armed.CompareAndSwap(true, false) {
		forget(conn, "UPDATE ")
	}
	return ctx
}

func forget(conn *pgx.Conn, text string) { conn.PgConn().Conn().(*forgetfulConn).forget.Store(&text) }

func (settleForgetter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (settleForgetter) TraceBatchEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	conn.PgConn().Conn().(*forgetfulConn).forget.Store(nil) // in several pieces it was not recognized
}
func (settleForgetter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (settleForgetter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A commitForgetter makes the first commit of a handler's transaction lose its reply.
type commitForgetter struct{ armed *atomic.Bool }

func (f commitForgetter) TraceQueryStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceQueryStartData) context.Context {
	if data.SQL == "commit" && f.armed.CompareAndSwap(true, false) {
		forget(conn, "COMMIT")
	}
	return ctx
}
func (commitForgetter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A settle was applied before its reply was lost. It is counted and told like any other, once.
func TestASettleWhoseReplyWasLostIsCounted(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	var lost atomic.Int64
	var r *rig
	metrics := newScope()
	r = newRig(t, rigOptions{
		telemetry: metrics.attach(&r, nil),
		spec:      func(s *workqueue.Spec) { s.Retry = never },
		pool:      func(c *pgxpool.Config) { loseReply(c, settleForgetter{&armed}, &lost) },
	})
	var claimed sync.WaitGroup
	w := r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 100}, func(_ context.Context,
		c *noteClaim) error {
		claimed.Done()
		claimed.Wait()
		if c.Body.Topic != "ack" {
			return errors.New("boom")
		}
		return nil
	})
	// The reply may come in two pieces, neither of which is recognized, so the size varies.
	for round := 1; lost.Load() == 0; round++ {
		if round > 50 {
			t.Fatal("no reply was lost in 50 rounds")
		}
		armed.Store(true)
		rows := make([]workqueue.NewRow, 3*(1+round%20))
		claimed.Add(len(rows))
		for i := range rows {
			topic := []string{"ack", "retry", "last"}[i%3]
			rows[i] = workqueue.NewRow{Values: []any{topic, ""}, MaxAttempts: map[string]int{"last": 1}[topic]}
		}
		r.insertRows(rows...)
		r.eventually("all settles", func() bool { return r.count("status = 1 OR status = 0 AND due_at <= now()") == 0 })
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	each := int64(r.count("true")) / 3
	want := map[string]int64{"ack": each, "abandon": each, "exhausted": each}
	if got := metrics.sums(t, "txwork.settled", "txwork.outcome"); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if got, want := metrics.sums(t, "txwork.dead_letters", "txwork.reason"),
		map[string]int64{"exhausted": each}; !maps.Equal(got, want) {
		t.Errorf("dead letters %v, want %v", got, want)
	}
	told := map[string]int64{}
	for id, outcomes := range r.Events.outcomes() {
		if len(outcomes) != 1 {
			t.Errorf("of %v are told %+v", id, outcomes)
		}
		told[string(outcomes[0].Outcome)]++
	}
	if !maps.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

// A commit of Claim.Tx was applied before its reply was lost. The handler has failed as far as it knows, but what is
// told and counted of the row is what its transaction has made of it.
func TestACommitWhoseReplyWasLostIsCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result error
		want   workqueue.RowOutcome
		status workqueue.Status
	}{
		"ack":    {nil, workqueue.RowAcked, workqueue.Done},
		"fail":   {workqueue.Permanent(errors.New("broken")), workqueue.RowFailed, workqueue.Failed},
		"snooze": {workqueue.Snooze(time.Hour), workqueue.RowSnoozed, workqueue.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			var lost, calls atomic.Int64
			var r *rig
			metrics := newScope()
			r = newRig(t, rigOptions{
				telemetry: metrics.attach(&r, nil),
				pool:      func(c *pgxpool.Config) { loseReply(c, commitForgetter{&armed}, &lost) },
			})
			w := r.start(workqueue.WorkerOptions{Lease: time.Hour}, func(ctx context.Context, claim *noteClaim) error {
				calls.Add(1)
				return claim.Tx(ctx, func(pgx.Tx) error {
					armed.Store(true)
					return c.result
				})
			})
			id := r.insert("t")[0]
			r.eventually("a settle", func() bool { return len(r.Events.outcomes()[id]) > 0 })
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			status := r.row(id).Status
			if lost.Load() != 1 || calls.Load() != 1 || status != c.status {
				t.Fatalf("%d replies were lost in %d calls, and the row is %v", lost.Load(), calls.Load(), status)
			}
			if told := r.Events.outcomes()[id]; len(told) != 1 || told[0].Outcome != c.want {
				t.Errorf("told of %+v, want %v", told, c.want)
			}
			if got, want := metrics.sums(t, "txwork.settled", "txwork.outcome"),
				map[string]int64{string(c.want): 1}; !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
		})
	}
}

// So it is with BatchTx. The batch is called again, in halves, but cannot commit twice.
func TestACommitOfABatchWhoseReplyWasLostIsCounted(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	var lost, calls atomic.Int64
	r := newLedgerRig(t, rigOptions{pool: func(c *pgxpool.Config) { loseReply(c, commitForgetter{&armed}, &lost) }})
	ids := r.insertMany("t", 4)
	r.drainBatches(workqueue.BatchOptions{Limit: 4}, func(ctx context.Context, batch []*noteClaim) ([]error, error) {
		return workqueue.BatchTx(ctx, batch, func(tx pgx.Tx) ([]error, error) {
			armed.Store(calls.Add(1) == 1)
			for _, c := range batch {
				if err := book(ctx, tx, c); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
	})
	if lost.Load() != 1 {
		t.Fatalf("%d replies were lost", lost.Load())
	}
	for _, id := range ids {
		told := r.Events.outcomes()[id]
		if len(told) != 1 || told[0].Outcome != workqueue.RowAcked || r.row(id).Status != workqueue.Done ||
			r.booked(id) != 1 {
			t.Errorf("told of %+v, the row is %v, booked %d times", told, r.row(id).Status, r.booked(id))
		}
	}
}
