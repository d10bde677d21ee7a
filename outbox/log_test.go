package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// newLog is newOutbox with a log.
func newLog(t *testing.T, configure ...func(*outbox.Options)) *fixture {
	t.Helper()
	f := newOutbox(t, append([]func(*outbox.Options){func(o *outbox.Options) {
		o.Storage, o.Retry = outbox.Log, workqueue.Retry{}
	}}, configure...)...)
	f.table = f.DB.Schema + ".outbox_log"
	return f
}

// A logged is a message as the log has it.
type logged struct {
	ID      uuid.UUID
	Topic   string
	Key     *string
	Headers map[string]string
	Payload []byte
}

func (f *fixture) logged() []logged {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), "SELECT id, topic, key, headers, payload FROM "+f.table+" ORDER BY seq")
	if err != nil {
		f.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[logged])
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// Messages of a log exist if their transaction commits, whichever library has opened it, in the order of the call, with
// every field.
func TestALogIsWrittenInTheApplicationsTransaction(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		for _, ordering := range []outbox.Ordering{outbox.Unordered, outbox.PerKey} {
			t.Run(fmt.Sprint(w.Name, ordering), func(t *testing.T) {
				t.Parallel()
				f := newLog(t, func(o *outbox.Options) { o.Ordering = ordering })
				full := outbox.Message{ID: uuid.New(), Topic: "orders/größe", Key: `k"1\`,
					Payload: []byte{0, 1, 0xff, '"', '\\', '{'}, Headers: map[string]string{"quote": `"'\`, "a": ""}}
				calls := [][]outbox.Message{{full}, {{Topic: "bare"}}, {}, {
					{Topic: "many", Key: "b", Payload: []byte("1")}, {Topic: "many", Value: 2},
					{Topic: "many", Key: "b", Payload: []byte("3"), Headers: full.Headers}, {Topic: "many", Key: "a"},
				}}
				for _, commit := range []bool{false, true} {
					tx, end := w.Begin(f, f.DB)
					var ids []uuid.UUID
					for _, msgs := range calls {
						enqueued, err := f.box.EnqueueMany(t.Context(), tx, msgs...)
						if err != nil || len(enqueued) != len(msgs) {
							t.Fatalf("%d of %d, %v", len(enqueued), len(msgs), err)
						}
						ids = append(ids, workqueue.IDs(enqueued)...)
					}
					if end(commit); !commit {
						if n := f.messages(); n != 0 {
							t.Errorf("%d messages of a transaction that was rolled back", n)
						}
						full.ID = uuid.New()
						calls[0][0].ID = full.ID
						continue
					}
					f.expectLogged(slices.Concat(calls...), ids)
				}
			})
		}
	}
}

func (f *fixture) expectLogged(want []outbox.Message, ids []uuid.UUID) {
	f.Helper()
	got := f.logged()
	if len(got) != len(want) {
		f.Fatalf("the log has %d messages, want %d", len(got), len(want))
	}
	for i, m := range got {
		w := want[i]
		if w.Value != nil {
			w.Payload = fmt.Append(nil, w.Value)
		}
		key := ""
		if m.Key != nil {
			key = *m.Key
		}
		if m.ID != ids[i] || w.ID != uuid.Nil && m.ID != w.ID || m.Topic != w.Topic || key != w.Key ||
			(m.Key == nil) != (w.Key == "") || string(m.Payload) != string(w.Payload) ||
			fmt.Sprint(sdktest.Untraced(m.Headers)) != fmt.Sprint(w.Headers) {
			f.Errorf("message %d is %+v, want %+v", i, m, w)
		}
	}
}

// Telemetry is told of each message once. TestTheTraceTravelsInTheHeaders looks at the headers.
func TestALogIsToldOf(t *testing.T) {
	t.Parallel()
	var events []workqueue.Event
	f := newLog(t, func(o *outbox.Options) {
		o.Telemetry.Observer = func(_ context.Context, e workqueue.Event) { events = append(events, e) }
	})
	ids := f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "b"})
	if len(events) != 1 || events[0].Table != f.table || events[0].Operation != "enqueue" || events[0].Changed != 2 ||
		!slices.Equal(events[0].IDs, ids) || len(events[0].Rows) != 2 {
		t.Errorf("told of %+v", events)
	}
	f.exec("ALTER TABLE " + f.table + " ADD CHECK (topic <> 'refused') NOT VALID")
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "refused"})
		return err
	})
	if err == nil || len(events) != 2 || events[1].Err == nil {
		t.Errorf("the refusal %v is told as %+v", err, events[1:])
	}
}

// Writers of a key take turns until they commit, also in calls of several messages, and those of other keys do not
// wait. Without an order, nobody does.
func TestWritersOfAKeyTakeTurnsInALog(t *testing.T) {
	t.Parallel()
	for _, ordering := range []outbox.Ordering{outbox.Unordered, outbox.PerKey} {
		for _, others := range []int{0, 2} {
			t.Run(fmt.Sprint(ordering, others), func(t *testing.T) {
				t.Parallel()
				f := newLog(t, func(o *outbox.Options) { o.Ordering = ordering })
				call := append([]outbox.Message{{Topic: "t", Key: "k", Payload: []byte("first")}}, keyless(others)...)
				first, err := f.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = first.Rollback(context.Background()) }()
				if _, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(first), call...); err != nil {
					t.Fatal(err)
				}
				call[0].Payload = []byte("second")
				done := make(chan []uuid.UUID, 1)
				go func() { done <- f.enqueue(call...) }()
				f.enqueue(outbox.Message{Topic: "t", Key: "other"})
				if ordering == outbox.Unordered {
					receive(t, done)
				} else {
					f.until("the second writer waits for the first", func() bool {
						return f.count("SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))",
							int32(first.Conn().PgConn().PID())) > 0
					})
				}
				if err := first.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if ordering == outbox.Unordered {
					return
				}
				receive(t, done)
				var order []string
				for _, m := range f.logged() {
					if m.Key != nil && *m.Key == "k" {
						order = append(order, string(m.Payload))
					}
				}
				if !slices.Equal(order, []string{"first", "second"}) {
					t.Errorf("the key has %q", order)
				}
			})
		}
	}
}

func keyless(n int) []outbox.Message { return numbered(n) }

// What a log does not do is refused by name, before anything is written.
func TestWhatALogDoesNotDo(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	refused := func(what string, err error) {
		t.Helper()
		if want := what + " is not possible with Storage Log"; !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(*outbox.Options){
		"max attempts":     func(o *outbox.Options) { o.MaxAttempts = 3 },
		"retry":            func(o *outbox.Options) { o.Retry = workqueue.Retry{Base: time.Second} },
		"retention":        func(o *outbox.Options) { o.Retention = time.Hour },
		"failed retention": func(o *outbox.Options) { o.FailedRetention = time.Hour },
		"delete done":      func(o *outbox.Options) { o.DeleteDone = true },
		"on failure":       func(o *outbox.Options) { o.Ordering, o.OnFailure = outbox.PerKey, keyed.Skip },
	} {
		o := outbox.Options{Storage: outbox.Log}
		change(&o)
		_, err := outbox.Open(o)
		refused(what, err)
	}
	if _, err := outbox.Open(outbox.Options{Storage: 7}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("storage 7: %v", err)
	}
	f.inTx(func(tx pgx.Tx) error {
		for what, m := range map[string]outbox.Message{
			"max attempts": {Topic: "t", MaxAttempts: 1},
			"retry":        {Topic: "t", Retry: workqueue.Retry{Growth: workqueue.Constant, Base: time.Second}},
		} {
			_, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "good"}, m)
			var item *workqueue.ItemError
			if refused(what, err); !errors.As(err, &item) || item.Index != 1 {
				t.Errorf("%s: %v names no message", what, err)
			}
		}
		_, err := f.box.StartJoin(t.Context(), workqueue.Pgx(tx), outbox.Join{Steps: []outbox.Message{{Topic: "t"}}})
		refused("join", err)
		refused("pause of a topic", f.box.Pause(t.Context(), workqueue.Pgx(tx), "t"))
		refused("pause of a topic", f.box.Resume(t.Context(), workqueue.Pgx(tx), "t"))
		_, err = f.box.Topics(t.Context(), workqueue.Pgx(tx))
		refused("pause of a topic", err)
		return nil
	})
	if n := f.messages(); n != 0 {
		t.Errorf("%d messages were written", n)
	}
	_, err := f.box.Enqueue(t.Context(), nil, outbox.Message{Topic: "t"})
	if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("without a transaction: %v", err)
	}
}

// A payload may be as large as the options say, in each way in which messages are written.
func TestALogTakesWhatTheOptionsSay(t *testing.T) {
	t.Parallel()
	const limit = outbox.DefaultMaxPayload + 1
	f := newLog(t, func(o *outbox.Options) { o.Ordering, o.MaxPayload = outbox.PerKey, limit })
	large := func(key string) outbox.Message {
		return outbox.Message{Topic: "t", Key: key, Payload: make([]byte, limit)}
	}
	for _, msgs := range [][]outbox.Message{{large("")}, {large("k")}, {large(""), large("k")}} {
		f.enqueue(msgs...)
	}
	f.inTx(func(tx pgx.Tx) error {
		m := large("k")
		m.Payload = append(m.Payload, 0)
		if _, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), m); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("one byte more: %v", err)
		}
		return nil
	})
}

// A message that the table does not store is an error, in each way in which messages are written.
func TestALogThatStoresNothingSaysSo(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.exec("CREATE FUNCTION " + f.DB.Schema + ".swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
	f.exec("CREATE TRIGGER swallow BEFORE INSERT ON " + f.table + " FOR EACH ROW EXECUTE FUNCTION " + f.DB.Schema +
		".swallow()")
	for _, msgs := range [][]outbox.Message{{{Topic: "t"}}, {{Topic: "t", Key: "k"}}, numbered(2)} {
		err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
			_, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "suppress") {
			t.Errorf("%d messages: %v", len(msgs), err)
		}
	}
}

// A call that would take more than its share of the server's locks takes none, and leaves its transaction as it was.
func TestALogTakesABoundedNumberOfKeysAtOnce(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	msgs := numbered(20_000)
	for i := range msgs {
		msgs[i].Key = fmt.Sprint(i)
	}
	f.inTx(func(tx pgx.Tx) error {
		_, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), "20000 different values") {
			t.Errorf("20,000 keys: %v", err)
		}
		return nil
	})
	if n := f.messages(); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}

// A schema without a log says so, and which command makes one.
func TestASchemaWithoutALog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	box, err := outbox.Open(outbox.Options{Schema: db.Schema, Storage: outbox.Log, Ordering: outbox.PerKey})
	if err != nil {
		t.Fatal(err)
	}
	for _, msgs := range [][]outbox.Message{{{Topic: "t"}}, {{Topic: "t", Key: "k"}}, numbered(2)} {
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			_, err := box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
			return err
		})
		if want := "run `txwork migrate up --domain log --schema " + db.Schema + "`"; !errors.Is(err,
			workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A log that has no consumers is ticked by its reaper, and so can be trimmed.
func TestAReaperTicksALog(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	up, err := migrations.SQL(migrations.FileOptions{Schema: f.Schema,
		Domains: []migrations.Domain{migrations.Reaper}})
	if err != nil {
		t.Fatal(err)
	}
	f.exec(up)
	newest := func() (n int) {
		err := f.Pool.QueryRow(f.Context(), "SELECT coalesce(max(n), 0) FROM "+f.table+"_tick").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	f.enqueue(outbox.Message{Topic: "a"})
	before := newest()
	if _, err := reaper.RunOnce(f.Context(), f.Pool, f.box.Tables(), reaper.Options{Schema: f.Schema}); err != nil {
		t.Fatal(err)
	}
	if after := newest(); after <= before {
		t.Errorf("the newest tick is %d before a round of the reaper, and %d after it", before, after)
	}
}
