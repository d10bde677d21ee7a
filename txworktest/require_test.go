package txworktest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

const placed = `{"order": 7, "lines": [{"sku": "a", "n": 1.0}, {"sku": "b"}], "gift": null}`

func TestRequireEnqueuedFindsTheOneThatMatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx := f.Begin(t)
	ids := f.enqueueIn(tx,
		outbox.Message{Topic: "order.placed", Key: "7", Payload: []byte(placed),
			Headers: map[string]string{"to": "ship"}, DedupKey: "d"},
		outbox.Message{Topic: "order.paid", Payload: []byte("\xff"), ScheduledAt: time.Now().Add(time.Hour)})
	for name, m := range map[string]txworktest.Matcher{
		"topic":    txworktest.Topic("order.placed"),
		"key":      txworktest.Key("7"),
		"column":   txworktest.Column("dedup_key", "d"),
		"header":   txworktest.Header("to", "ship"),
		"bytes":    txworktest.Bytes([]byte(placed)),
		"function": txworktest.Where("due", func(r txworktest.Row) bool { return r.DueAt.Equal(r.CreatedAt) }),
		"a member": txworktest.JSON(map[string]any{"order": 7}),
		"a struct": txworktest.JSON(struct {
			Order int `json:"order"`
		}{7}),
		"JSON":  txworktest.JSON(json.RawMessage(`{"lines": [{"n": 1}, {}], "gift": null}`)),
		"typed": txworktest.Payload("is of order 7", func(p struct{ Order int }) bool { return p.Order == 7 }),
	} {
		if row := txworktest.RequireEnqueued(t, tx, f.box, m); row.ID != ids[0] {
			t.Errorf("%s: %+v", name, row)
		}
	}
	rows := txworktest.RequireCount(t, tx, f.box, 2, txworktest.Column("joined", nil), txworktest.Own())
	if rows[0].ID != ids[0] || rows[1].ID != ids[1] || !bytes.Equal(rows[1].Payload(), []byte("\xff")) ||
		rows[1].DueAt.Sub(rows[1].CreatedAt) < 50*time.Minute {
		t.Errorf("%+v", rows)
	}
	var body struct{ Order int }
	if err := rows[0].JSON(&body); err != nil || body.Order != 7 || rows[0].MaxAttempts != 3 ||
		rows[0].Status != workqueue.Ready {
		t.Errorf("%+v, %v, %+v", body, err, rows[0])
	}
}

func TestMatchersThatDoNotMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "order.placed", Payload: []byte(placed)})
	for _, m := range []txworktest.Matcher{
		txworktest.Topic("order"), txworktest.Key("7"), txworktest.Kind("order.placed"), txworktest.Queue("default"),
		txworktest.Column("key", ""), txworktest.Column("no such column", "x"), txworktest.Header("traceparent", ""),
		txworktest.Bytes(nil), txworktest.Own(), txworktest.JSON(7), txworktest.JSON(nil), txworktest.JSON(func() {}),
		txworktest.JSON(map[string]any{"order": "7"}), txworktest.JSON(map[string]any{"order": 8}),
		txworktest.JSON(map[string]any{"missing": nil}),
		txworktest.JSON(json.RawMessage(`{"lines": [{"sku": "a"}]}`)),
		txworktest.JSON(json.RawMessage(`{"lines": {}}`)),
		txworktest.JSON(json.RawMessage(`{"order": {}}`)), txworktest.JSON([]int{}),
		txworktest.JSON(json.RawMessage(`{`)),
		txworktest.Payload("is a list", func([]int) bool { return true }),
	} {
		txworktest.RequireNone(t, f.Pool, f.box, m)
	}
	if m := txworktest.JSON(map[string]any{}); fmt.Sprint(m) != "payload has {}" {
		t.Errorf("%v", m)
	}
}

func TestAssertionsFailAndShowWhatIsThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	table := f.Schema + ".outbox"
	fails(t, func(t testing.TB) { txworktest.RequireEnqueued(t, f.Pool, f.box) }, "0 rows of "+table+
		", want 1: any row", table+" is empty")

	ids := f.enqueue(outbox.Message{Topic: "order.placed", Key: "7", Payload: []byte(placed),
		Headers: map[string]string{"to": "ship"}}, outbox.Message{Topic: "order.paid"})
	want := []string{
		"0 rows of " + table + `, want 1: topic is "order.shipped", payload has {"order":7}`, table + " has 2 rows:",
		ids[0].String() + ` topic="order.placed" key="7"`, "attempt 0 of 3", "payload " + placed, "headers map[to:ship",
		ids[1].String(),
	}
	fails(t, func(t testing.TB) {
		txworktest.RequireEnqueued(t, f.Pool, f.box, txworktest.Topic("order.shipped"),
			txworktest.JSON(map[string]any{"order": 7}))
	}, want...)
	fails(t, func(t testing.TB) { txworktest.RequireEnqueued(t, f.Pool, f.box) }, "2 rows of "+table+", want 1")
	fails(t, func(t testing.TB) { txworktest.RequireNone(t, f.Pool, f.box, txworktest.Topic("order.paid")) },
		"1 row of "+table+", want 0")
	fails(t, func(t testing.TB) {
		txworktest.RequireStatus(t, f.Pool, f.box, workqueue.Done, txworktest.Topic("order.paid"))
	}, "want "+workqueue.Done.String(), ids[1].String())
	txworktest.RequireStatus(t, f.Pool, f.box, workqueue.Ready, txworktest.Topic("order.paid"))
}

func TestFailuresShowNoMoreThanAPersonReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	msgs := make([]outbox.Message, 30)
	for i := range msgs {
		msgs[i] = outbox.Message{Topic: "a", Payload: bytes.Repeat([]byte("x\xff"), 5000)}
	}
	f.enqueue(msgs...)
	message := messages(t, func(t testing.TB) { txworktest.RequireNone(t, f.Pool, f.box) })
	if !strings.Contains(message, "… and 10 more") || len(message) > 20*500 {
		t.Error(message)
	}
}

func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := f.box.Enqueue(t.Context(), workqueue.SQL(tx), outbox.Message{Topic: "a", Payload: []byte(placed),
		ScheduledAt: time.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	q := txworktest.SQL(tx)
	txworktest.RequireEnqueued(t, q, f.box, txworktest.Topic("a"), txworktest.JSON(map[string]int{"order": 7}),
		txworktest.Own())
	txworktest.RequireNone(t, f.Pool, f.box)
	f.Advance(t, q, time.Hour)
	txworktest.RequireEnqueued(t, q, f.box,
		txworktest.Where("is due", func(r txworktest.Row) bool { return r.DueAt.Before(time.Now()) }))
	fails(t, func(t testing.TB) { txworktest.Drain(t, q, f.relay(deliver)) }, "workers speak pgx", "*sql.Tx")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.Drain(t, txworktest.SQL(f.SQL(t)), f.relay(deliver)), "done")
}

func TestErrorsOfTheDatabaseEndTheTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(t, "ALTER TABLE outbox RENAME TO gone")
	fails(t, func(t testing.TB) { txworktest.Enqueued(t, f.Pool, f.box) }, "does not exist")
	fails(t, func(t testing.TB) { txworktest.Drain(t, f.Pool, f.relay(deliver)) }, "does not exist")
	fails(t, func(t testing.TB) { txworktest.Advance(t, f.Pool, time.Hour, f.box) }, "has no table outbox of txwork's")
	idle, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, func(t testing.TB) { txworktest.Drain(t, f.Pool, idle) }, "handler")
}
