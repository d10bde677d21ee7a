package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)


func (f *fixture) joinOf(j outbox.Join) (s outbox.Started) {
	f.inTx(func(tx pgx.Tx) (err error) {
		s, err = f.box.StartJoin(f.Context(), workqueue.Pgx(tx), j)
		return err
	})
	return s
}

func (f *fixture) dump() string {
	var s string
	f.Pool.QueryRow(f.Context(), `SELECT string_agg(format('%s key %s status %s waiting %s seq %s due %s err %s', topic, key, status, waiting, gate_seq, due_at - clock_timestamp(), last_error), E'\n' ORDER BY created_at, id) FROM `+f.table).Scan(&s)
	return s
}

func TestAttackRedrivenGatedContinuation(t *testing.T) {
	f := newOutbox(t, perKey(outbox.Block))
	ctx := t.Context()
	_ = 0
	f.enqueue(outbox.Message{Topic: "head", Key: "k", ProcessAt: time.Now().Add(time.Hour)})
	s := f.joinOf(outbox.Join{Steps: []outbox.Message{{Topic: "s"}}, OnComplete: &outbox.Message{Topic: "c", Key: "k"}})
	q := f.box.Table().On(f.Pool)
	_, err := q.Cancel(ctx, []uuid.UUID{s.OnComplete}, "x")
	t.Log(err)
	_, err = q.Redrive(ctx, []uuid.UUID{s.OnComplete}, "me")
	t.Log(err)
	tok := uuid.New()
	rows, _ := q.Claim(ctx, tok, time.Minute, 10)
	t.Log("claimed", len(rows))
	_, err = q.Ack(ctx, tok, s.Steps)
	t.Log("ack of the step:", err)
	t.Log("\n" + f.dump())
}

// gated waiting row taken as a continuation
func TestAttackGatedRowAsContinuation(t *testing.T) {
	f := newOutbox(t, perKey(outbox.Block))
	ctx := t.Context()
	ids := f.enqueue(outbox.Message{Topic: "1", Key: "k"}, outbox.Message{Topic: "2", Key: "k"}, outbox.Message{Topic: "step"})
	err := pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
		_, err := f.box.Joins().Start(ctx, workqueue.Pgx(tx), join.Join{Members: ids[2:], OnComplete: ids[1]})
		return err
	})
	t.Log("start:", err)
}

func TestAttackDrainIn(t *testing.T) {
	f := newOutbox(t, perKey(outbox.Block))
	ctx := t.Context()
	tx, _ := f.Pool.Begin(ctx)
	defer tx.Rollback(ctx)
	_, err := f.box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "1", Key: "k"}, outbox.Message{Topic: "2", Key: "k"}, outbox.Message{Topic: "3", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	c := outbox.Message{Topic: "done"}
	_, err = f.box.StartJoin(ctx, workqueue.Pgx(tx), outbox.Join{Steps: []outbox.Message{{Topic: "s1"}, {Topic: "s2"}}, OnComplete: &c})
	if err != nil {
		t.Fatal(err)
	}
	r := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	var got []string
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
		got = append(got, m.Topic)
		return m.Tx(ctx, func(tx pgx.Tx) error { return nil })
	})
	d, err := r.DrainIn(tx)
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.Process(ctx)
	t.Log(n, err, got)
	var set string
	tx.QueryRow(ctx, "SELECT current_setting('enable_seqscan') || current_setting('enable_sort')").Scan(&set)
	t.Log("settings after:", set)
}

func TestAttackStartJoinBad(t *testing.T) {
	f := newOutbox(t)
	ctx := t.Context()
	for name, j := range map[string]outbox.Join{
		"label":    {Label: string(make([]byte, 300)), Steps: []outbox.Message{{Topic: "s"}}},
		"policy":   {Policy: 7, Steps: []outbox.Message{{Topic: "s"}}},
		"deadline": {Deadline: time.UnixMilli(99999999999999), Steps: []outbox.Message{{Topic: "s"}}},
		"steps":    {Steps: make([]outbox.Message, 10001)},
	} {
		for i := range j.Steps {
			j.Steps[i].Topic = "s"
		}
		before := f.messages()
		f.inTx(func(tx pgx.Tx) error {
			_, err := f.box.StartJoin(ctx, workqueue.Pgx(tx), j)
			t.Log(name, err, "is ErrInvalid:", errors.Is(err, workqueue.ErrInvalid))
			return nil
		})
		t.Log(name, "written:", f.messages()-before)
	}
}

func TestAttackBigJoin(t *testing.T) {
	f := newOutbox(t)
	ctx := t.Context()
	steps := make([]outbox.Message, 10000)
	for i := range steps {
		steps[i].Topic = "s"
	}
	start := time.Now()
	c := outbox.Message{Topic: "done"}
	s := f.joinOf(outbox.Join{Steps: steps, OnComplete: &c})
	t.Log("start of 10,000:", time.Since(start))
	q := f.box.Table().On(f.Pool)
	tok := uuid.New()
	rows, err := q.Claim(ctx, tok, time.Minute, 10000)
	t.Log(len(rows), err)
	start = time.Now()
	_, err = q.Ack(ctx, tok, s.Steps[:1000])
	t.Log("ack 1,000:", time.Since(start), err)
	start = time.Now()
	_, err = q.Ack(ctx, tok, s.Steps[1000:])
	t.Log("ack 9,000:", time.Since(start), err)
	var n int
	f.Pool.QueryRow(ctx, "SELECT count(*) FROM "+f.table+" WHERE topic = 'done' AND NOT waiting").Scan(&n)
	t.Log("released", n)
}

// the sweep looks at many pending joins
func TestAttackManyPendingJoins(t *testing.T) {
	f := newOutbox(t)
	ctx := t.Context()
	f.exec("INSERT INTO outbox_join (id, expected, retention, look_at) SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 200, '1 day', now() FROM generate_series(1, 1000) i")
	f.exec("INSERT INTO outbox (id, topic, payload, joined) SELECT ('00000000-0000-7001-8000-' || lpad(i::text, 12, '0'))::uuid, 's', '', true FROM generate_series(1, 200000) i")
	f.exec("INSERT INTO outbox_join_member (member_id, join_id) SELECT ('00000000-0000-7001-8000-' || lpad(i::text, 12, '0'))::uuid, ('00000000-0000-7000-8000-' || lpad(((i-1) / 200 + 1)::text, 12, '0'))::uuid FROM generate_series(1, 200000) i")
	start := time.Now()
	n, err := f.box.Table().On(f.Pool).Sweep(ctx, 1000)
	t.Log("sweep of 1,000 pending joins of 200 steps:", time.Since(start), n, err)
}

// alarm: only a deadline / a rate is left
func TestAttackDrainWake(t *testing.T) {
	f := newOutbox(t)
	ctx := t.Context()
	c := outbox.Message{Topic: "done"}
	f.joinOf(outbox.Join{Steps: []outbox.Message{{Topic: "s", ProcessAt: time.Now().Add(time.Hour)}}, OnFail: &c, Deadline: time.Now().Add(time.Second)})
	r := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error { return nil })
	d, _ := r.Drain()
	t.Log(d.Process(ctx))
	w, err := d.NextWakeAt(ctx)
	t.Logf("deadline in a second; next wake %+v %v", w, err)
}

// deadlocks: random settles, cancels, redrives, sweeps, joins, gates
var _ = fmt.Sprint
