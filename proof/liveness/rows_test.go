package liveness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// The holders hold SELECT … FOR UPDATE on one row of each table and each status.
func TestRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.besideEach(t, w.populate(), func(w *world) []holder {
		return append(w.rows(), append(w.notes(), heldStart)...)
	})
}

// heldStart holds a start of a queue with a rate that has ceased to matter, so claims delete it, unless it is held.
var heldStart = holder{"a start of jobs_start", func(w *world) func() {
	return w.opened(func(tx pgx.Tx) error {
		for {
			table, id := w.Schema+".jobs_start", uuid.New()
			_, err := w.Pool.Exec(w.Context(), "INSERT INTO "+table+" (queue, at, job_id, owner_token) VALUES ($1, "+
				"(extract(epoch FROM clock_timestamp() - interval '11 s') * 1000000)::bigint, $2, $2)", capped, id)
			if err != nil {
				return err
			}
			held, err := tx.Exec(w.Context(), "SELECT FROM "+table+" WHERE job_id = $1 FOR UPDATE SKIP LOCKED", id)
			if err != nil || held.RowsAffected() > 0 {
				return err
			}
		}
	})
}}

// notes are holders of one note each, which becomes due while it is held.
func (w *world) notes() (holders []holder) {
	w.Helper()
	for _, table := range []string{"jobs", "outbox"} {
		for _, note := range []struct{ name, columns, values string }{
			{table + "_key_note", "limited, concurrency_key", "false, 'held'"}, {table + "_join_note", "member_id",
				"gen_random_uuid()"},
		} {
			holders = append(holders, holder{"a note of " + note.name, func(w *world) func() {
				var place string
				w.ok(w.Pool.QueryRow(w.Context(), fmt.Sprintf(
					"INSERT INTO %s.%s (%s, at) VALUES (%s, now() + interval '100 milliseconds') RETURNING ctid::text",
					w.Schema, note.name, note.columns, note.values)).Scan(&place))
				return w.opened(func(tx pgx.Tx) error {
					_, err := tx.Exec(w.Context(),
						fmt.Sprintf("SELECT FROM %s.%s WHERE ctid = $1::text::tid FOR UPDATE", w.Schema, note.name),
						place)
					return err
				})
			}})
		}
	}
	return holders
}

// besideEach uses the holders of a populated world one after the other.
func (w *world) besideEach(t *testing.T, finish func(), holders func(*world) []holder) {
	t.Helper()
	for i, h := range holders(w) {
		t.Run(h.name, func(t *testing.T) { w.beside(t, h, i) })
	}
	finish()
	w.settled(t)
}

// rows are holders of one row each. The tables come from the catalog, so populate has to put a row into every new
// table.
func (w *world) rows() (holders []holder) {
	w.Helper()
	tables := w.list("SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY 1",
		w.Schema)
	for _, table := range tables {
		if strings.HasPrefix(table, "schema_") {
			continue // only migrations read it
		}
		statuses := w.statuses(table)
		if len(statuses) == 0 && !transient(table) {
			w.Errorf("populate leaves no row in %s, so nothing holds one", table)
		}
		for _, status := range statuses {
			name := strings.TrimSpace("a row of " + table + " " + status)
			holders = append(holders, holder{name, func(w *world) func() { return w.locked(table, status) }})
		}
	}
	return holders
}

// transient tells whether a table's rows exist only briefly, because notes are folded and starts taken soon, or never:
// the outbox sets no rates.
func transient(table string) bool {
	return strings.HasSuffix(table, "_note") || strings.HasSuffix(table, "_slot") ||
		strings.HasSuffix(table, "_start") || table == "outbox_key_state"
}

// statuses returns the statuses of a table's rows, or a single one for a table without statuses.
func (w *world) statuses(table string) []string {
	w.Helper()
	return w.list(fmt.Sprintf("SELECT DISTINCT %s FROM %s.%s AS t ORDER BY 1", status, w.Schema, table))
}

// status selects the status of a row of any table.
const status = "coalesce(to_jsonb(t) ->> 'status', '')"

// locked locks one row with a status.
func (w *world) locked(table, of string) (release func()) {
	return w.opened(func(tx pgx.Tx) error {
		tag, err := tx.Exec(w.Context(), fmt.Sprintf("SELECT FROM %s.%s AS t WHERE %s = $1 ORDER BY t.ctid LIMIT 1 "+
			"FOR UPDATE", w.Schema, table, status), of)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("no row of %s has status %s any more", table, of)
		}
		return err
	})
}

// populate puts rows of every status into every table, and starts the workers. Handlers run until finish is called.
func (w *world) populate() (finish func()) {
	w.Helper()
	ctx := w.Context()
	begun, leave := w.busy("populated")
	ready := jobs.Insert{Args: work{"idle"}, Queue: idle}
	steps := jobs.Insert{Args: work{stepping}}
	running := jobs.Insert{Args: work{"populated"}}
	keyedBy := func(g keyed.Rule, queue string) jobs.Insert {
		return jobs.Insert{Args: work{"populated"}, ByKey: g, Queue: queue}
	}
	// with a rate so low that it stays on record
	serial, rated := keyed.Ordered{Key: "populated"}, keyed.Limited{Key: "rated", Rate: 0.001}
	w.inTx(func(tx workqueue.Tx) error {
		_, err := w.jobs.StartBatch(ctx, tx, jobs.Batch{Jobs: []jobs.Insert{ready, running}, OnComplete: &ready})
		w.ok(err)
		_, err = w.jobs.EnqueueMany(ctx, tx, ready, steps, keyedBy(serial, ""), keyedBy(serial, ""),
			keyedBy(sharedKey, idle), keyedBy(rated, ""), keyedBy(nil, capped))
		w.ok(err)
		_, err = w.outbox.StartJoin(ctx, tx, outbox.Join{
			Steps: []outbox.Message{{Topic: topic, Payload: []byte("populated")},
				{Topic: topic, ScheduledAt: time.Now().Add(time.Hour)}},
			OnComplete: &outbox.Message{Topic: topic, ScheduledAt: time.Now().Add(time.Hour)},
		})
		w.ok(err)
		_, err = w.outbox.EnqueueMany(ctx, tx,
			outbox.Message{Topic: topic, Key: "populated", Payload: []byte("populated")},
			outbox.Message{Topic: topic, Key: "populated"})
		w.ok(err)
		_, err = w.inbox.ReceiveMany(ctx, tx, inbox.Message{Consumer: consumer, Source: "a", MessageID: "populated",
			Payload: []byte("populated")},
			inbox.Message{Consumer: idle, Source: "a", MessageID: "populated"})
		w.ok(err)
		_, err = w.timers.SetMany(ctx, tx, timers.Timer{Key: "populated", Topic: topic, Payload: []byte("populated")},
			timers.Timer{Key: "later", Topic: topic, Delay: time.Hour})
		w.ok(err)
		w.ok(w.outbox.Pause(ctx, tx, "paused"))
		w.ok(w.inbox.Pause(ctx, tx, consumer, "paused"))
		w.ok(w.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: "populated", Expr: "@every 10h", Topic: topic}))
		return w.periodic.Put(ctx, tx, jobs.Schedule{Name: "populated", Expr: "@every 10h", Args: work{"populated"}})
	})
	_, _, err := w.alarms.On(w.Pool).CreateAlarm(ctx, alarms.New{OwnerDID: "populated", UserID: "populated",
		Kind: alarms.KindOnce, Delay: time.Hour, WakeMessage: "later"})
	w.ok(err)
	for _, sql := range []string{"history_keep DEFAULT VALUES", "audit_keep DEFAULT VALUES",
		"history_flush SELECT 'no table', 1, 1, '', now(), 1, 0, 0, 0, 0, 0, '{}', '{}'",
		"audit (who, origin, action, event, verb, target, about, rows) VALUES ('w', '', gen_random_uuid(), 'done', " +
			"'v', 't', '{}', 1)"} {
		_, err = w.Pool.Exec(ctx, "INSERT INTO "+w.Schema+"."+sql)
		w.ok(err)
	}
	_, err = reaper.RunOnce(ctx, w.Pool, w.tables(), reaper.Options{Schema: w.Schema, Logger: logger()})
	w.ok(err)
	w.start()
	w.await("a handler runs", begun)
	if !pgtest.Await(patience, func() bool { return len(w.list("SELECT host FROM "+w.Schema+".process")) > 0 }) {
		w.Fatal("no worker says that its process runs")
	}
	w.ok(w.finished(ctx))
	w.ok(w.Pool.QueryRow(ctx, "SELECT now()").Scan(&w.since))
	return func() { leave(); w.since = time.Time{} }
}

// finished makes rows that are done or have failed, and stored results of a handler's steps.
func (w *world) finished(ctx context.Context) error {
	name := uuid.NewString()
	if err := batches(ctx, w, name); err != nil {
		return err
	}
	for _, err := range []error{messages(ctx, w, name), timersFire(ctx, w, name), alarmsFire(ctx, w, name),
		received(ctx, w, name), reaped(ctx, w, name)} {
		if err != nil {
			return err
		}
	}
	ids, err := w.enqueue(ctx, 1, name, jobs.Insert{Queue: idle})
	if err != nil {
		return err
	}
	return workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) error {
		_, err := w.jobs.Cancel(ctx, tx, "failed", ids...)
		return err
	})
}
