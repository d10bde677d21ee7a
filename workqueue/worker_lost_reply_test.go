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

// A forgetfulConn loses the reply to a settle, and then ends. The settle is committed by then: the server says so, by
// ReadyForQuery, after it has committed what was sent at once.
type forgetfulConn struct {
	net.Conn
	forget atomic.Bool
	lost   *atomic.Int64
}

func (c *forgetfulConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.forget.Load() && bytes.Contains(p[:n], []byte("UPDATE ")) &&
		bytes.HasSuffix(p[:n], []byte("Z\x00\x00\x00\x05I")) {
		c.forget.Store(false)
		c.lost.Add(1)
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// loseReply makes the first settle after armed was set lose its reply, and counts it.
func loseReply(c *pgxpool.Config, armed *atomic.Bool, lost *atomic.Int64) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &forgetfulConn{Conn: conn, lost: lost}, err
	}
	c.ConnConfig.Tracer = settleForgetter{armed: armed}
}

// A settleForgetter makes the first settle that it sees lose its reply.
type settleForgetter struct{ armed *atomic.Bool }

func (f settleForgetter) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData) context.Context {
	isSettle := slices.ContainsFunc(data.Batch.QueuedQueries, func(q *pgx.QueuedQuery) bool {
		return strings.Contains(q.SQL, "SET status = 2") || strings.Contains(q.SQL, "abandoned without")
	})
	if isSettle && f.armed.CompareAndSwap(true, false) {
		conn.PgConn().Conn().(*forgetfulConn).forget.Store(true)
	}
	return ctx
}

func (settleForgetter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (settleForgetter) TraceBatchEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	conn.PgConn().Conn().(*forgetfulConn).forget.Store(false) // in several pieces it was not recognized
}
func (settleForgetter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (settleForgetter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

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
		pool:      func(c *pgxpool.Config) { loseReply(c, &armed, &lost) },
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
