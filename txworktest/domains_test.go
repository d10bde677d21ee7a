package txworktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

func TestTimers(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	tm, err := timers.Open(timers.Options{Schema: db.Schema})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(90 * 24 * time.Hour).Truncate(time.Second)
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := tm.Set(t.Context(), workqueue.Pgx(tx), timers.Timer{Key: "renewal-7", Topic: "renew", FireAt: at})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	txworktest.RequireEnqueued(t, db.Pool, tm, txworktest.Topic("renew"), txworktest.Key("renewal-7"), txworktest.Column("fire_at", at))
	w := timers.NewWorker(db.Pool, tm, timers.WorkerOptions{NoSchedules: true})
	w.Handle("renew", func(_ context.Context, d *timers.Delivery) error {
		if !d.FireAt.Equal(at) {
			t.Errorf("nominal time %v, want %v", d.FireAt, at)
		}
		return nil
	})
	wantOutcomes(t, txworktest.Drain(t, db.Pool, w), "")
	db.Advance(t, db.Pool, 91*24*time.Hour)
	wantOutcomes(t, txworktest.Drain(t, db.Pool, w), "done")
}

// several is a worker that is made of several drains, as one that serves more than one queue is.
type several struct{ *outbox.Relay }

type parts struct {
	workqueue.Processor
	drains []*workqueue.Drain
}

func (p parts) Drains() []*workqueue.Drain { return p.drains }

func (s several) Drain() (parts, error) {
	one, err := s.Relay.Drain()
	return parts{one, []*workqueue.Drain{one, one}}, err
}

func (s several) DrainIn(tx pgx.Tx) (parts, error) {
	one, err := s.Relay.DrainIn(tx)
	return parts{one, []*workqueue.Drain{one, one}}, err
}

// opaque is a worker whose processor does not tell what it is made of.
type opaque struct{ *outbox.Relay }

func (o opaque) Drain() (workqueue.Processor, error) { return hidden{}, nil }

func (o opaque) DrainIn(pgx.Tx) (workqueue.Processor, error) { return hidden{}, nil }

type hidden struct{ workqueue.Processor }

func (hidden) Namespace() string { return "a.b" }

func TestWorkersOfSeveralParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "fails"}, outbox.Message{Topic: "ok"})
	w := several{f.relay(byTopic)}
	handled := txworktest.DrainAll(t, f.Pool, w)
	if len(handled) != 5 { // three attempts of one
		t.Errorf("%v", handled)
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Begin(t), w), "")
	fails(t, func(t testing.TB) { txworktest.Drain(t, f.Pool, opaque(w)) }, "is made of no workqueue.Drain")
}
