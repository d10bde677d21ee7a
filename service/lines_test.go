package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
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
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// aboutNoRow lists the log lines that are about a process or a table. Every other line has to name its row.
var aboutNoRow = []string{"service starts", "service stops", "part starts", "part stops", "reaper leads",
	"reaper leads no longer", "reaped", "reaper round failed", "database does not answer; the work goes on when it does",
	"database answers again",
	"handlers that use the pool may wait for each other: it has fewer connections than there are handlers",
	"the pool is too small: inbox handlers, which each have a transaction, wait for each other", "this worker does not serve the queues of some kinds that it has handlers for"}

// A troublemaker handles rows. The topic or kind of a row says what goes wrong with it.
type troublemaker struct{ *world }

// troubles are the failures that a handler can cause. Each makes a log line about the row.
var troubles = []string{"fails", "dies", "panics", "exits", "loses", "postponed"}

func (w troublemaker) handle(ctx context.Context, table, what string, id uuid.UUID) error {
	switch what {
	case "dies":
		return workqueue.Permanent(errors.New("no such address"))
	case "panics":
		panic("no such address")
	case "exits":
		runtime.Goexit()
	case "loses": // as if the lease had expired and another worker had claimed the row
		_, err := w.db.Pool.Exec(ctx, "UPDATE "+w.db.Schema+"."+table+
			" SET owner_token = gen_random_uuid() WHERE id = $1", id)
		return err
	case "postponed": // the database refuses the settle
		return nil
	case "lapses": // no renewal gets through
		tx, err := w.db.Pool.Begin(context.Background())
		if err != nil {
			return err
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(ctx, "LOCK TABLE "+w.db.Schema+"."+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return errors.New("no such address")
}

// A trouble is the args of a job that causes a trouble.
type trouble struct{ What string }

func (trouble) Kind() string { return "trouble" }

// Whatever goes wrong with a row, each log line about it has the table, the row's topic or kind, its queue or consumer,
// and its id.
func TestLinesAboutRowsSayWhichOnes(t *testing.T) {
	t.Parallel()
	w := troublemaker{newWorld(t)}
	text := &logs{}
	logger := slog.New(slog.NewJSONHandler(text, nil))
	w.makes(logger)
	lines := func() (all []map[string]any) {
		for line := range strings.Lines(text.String()) {
			one := map[string]any{}
			w.ok(json.Unmarshal([]byte(line), &one))
			all = append(all, one)
		}
		return all
	}
	said := func(what, table, about string) bool {
		return slices.ContainsFunc(lines(), func(l map[string]any) bool {
			return l["msg"] == what && l["table"] == w.db.Schema+"."+table && (about == "" || l["topic"] == about ||
				l["kind"] == about)
		})
	}
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		about := func(trouble string) string {
			if table == "jobs" {
				return "trouble"
			}
			return trouble
		}
		for _, one := range []struct{ what, about string }{{"attempt failed", "fails"}, {"dead letter", "dies"},
			{"attempt failed", "panics"}, {"attempt failed", "exits"}} {
			w.eventually(fmt.Sprint(table, one), func() bool { return said(one.what, table, about(one.about)) })
		}
		w.eventually(table+" refused", func() bool { return said("settle refused", table, about("loses")) })
	}
	w.eventually("a settle that is left", func() bool {
		return said("settle failed; the row is left to the reaper", "outbox", "postponed") ||
			said("settle postponed", "outbox", "postponed")
	})
	for _, what := range []string{"wake failed and will be repeated", "wake failed for good",
		"alarm ended during its delivery"} {
		w.eventually(what, func() bool { return said(what, "timers", alarms.Topic) })
	}
	w.eventually("a schedule that cannot be read", func() bool { return said("attempt failed", "timers_schedule", "") })
	w.sendTo("lapses")
	w.eventually("a lapsed lease", func() bool { return said("leases ended without a renewal", "outbox", "lapses") })

	for _, l := range lines() {
		w.complete(l)
	}
}

// complete fails the test if a log line about a row does not identify the row.
func (w troublemaker) complete(l map[string]any) {
	w.Helper()
	what := fmt.Sprint(l["msg"])
	if slices.Contains(aboutNoRow, what) {
		return
	}
	table := strings.TrimPrefix(fmt.Sprint(l["table"]), w.db.Schema+".")
	wanted := map[string][]string{"outbox": {"topic"}, "inbox": {"topic", "consumer"}, "timers": {"topic"},
		"jobs": {"kind", "queue"}, "timers_schedule": {"name"}, "jobs_schedule": {"name"}}
	names, known := wanted[table]
	if !known {
		w.Errorf("%q names no table: %v", what, l)
	}
	for _, name := range names {
		if text, _ := l[name].(string); text == "" {
			w.Errorf("%q of %s has no %s: %v", what, table, name, l)
		}
	}
	id, _ := l["id"].(string)
	for _, one := range strings.Fields(id) {
		if uuid.Validate(one) != nil {
			id = ""
		}
	}
	if id == "" {
		w.Errorf("%q of %s has no id: %v", what, table, l)
	}
}

// makes runs a worker of every kind, and writes a row for each trouble.
func (w troublemaker) makes(logger *slog.Logger) {
	w.Helper()
	telemetry := workqueue.Telemetry{Logger: logger}
	quick := workqueue.WorkerOptions{Lease: pgtest.Lease}
	ctx := w.Context()
	var err error
	w.box, err = outbox.Open(outbox.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	w.in, err = inbox.Open(inbox.Options{Schema: w.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: telemetry})
	w.ok(err)
	w.timers, err = timers.Open(timers.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, j *jobs.Job[trouble]) error {
		return w.handle(ctx, "jobs", j.Args.What, j.ID)
	}, jobs.KindOptions[trouble]{})
	w.jobs, err = jobs.Open(jobs.Options{Schema: w.db.Schema, Registry: kinds, Telemetry: telemetry})
	w.ok(err)

	relay, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{WorkerOptions: quick})
	w.ok(err)
	relay.HandleAll(func(ctx context.Context, d *outbox.Delivery) error {
		return w.handle(ctx, "outbox", d.Topic,
			d.ID)
	})
	consumer, err := inbox.NewWorker(w.db.Pool, w.in, inbox.WorkerOptions{Consumer: "billing", WorkerOptions: quick})
	w.ok(err)
	consumer.HandleAll(func(ctx context.Context, _ pgx.Tx, d *inbox.Delivery) error {
		return w.handle(ctx, "inbox", d.Topic, d.ID)
	})
	clock, err := timers.NewWorker(w.db.Pool, w.timers, timers.WorkerOptions{WorkerOptions: quick})
	w.ok(err)
	clock.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
		return w.handle(ctx, "timers", d.Topic,
			d.ID)
	})
	worker, err := jobs.NewWorker(w.db.Pool, w.jobs, jobs.WorkerOptions{Registry: kinds,
		Queues: []jobs.QueueOptions{{Name: "mail"}}})
	w.ok(err)
	waker, err := alarms.Open(alarms.Options{Schema: w.db.Schema, Telemetry: telemetry})
	w.ok(err)
	store := waker.On(w.db.Pool)
	dispatcher, err := alarms.NewDispatcher(w.db.Pool, waker,
		alarms.WakerFunc(func(ctx context.Context, wake alarms.Wake) error {
			switch wake.Message {
			case "dies":
				return workqueue.Permanent(errors.New("gone"))
			case "ends":
				_, err := w.db.Pool.Exec(ctx, "UPDATE "+w.db.Schema+".alarms SET status = 'cancelled' WHERE id = $1",
					wake.AlarmID)
				return err
			}
			return errors.New("no such agent")
		}), alarms.DispatcherOptions{})
	w.ok(err)
	clock.Handle(alarms.Topic, dispatcher.Deliver)

	_, err = w.db.Pool.Exec(ctx, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'not today'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW WHEN (NEW.topic = 'postponed' AND NEW.status > 1)
		EXECUTE FUNCTION refuse()`)
	w.ok(err)
	w.ok(workqueue.InTx(ctx, w.db.Pool, func(tx workqueue.Tx) error {
		var errs []error
		for _, what := range troubles {
			_, err := w.box.Enqueue(ctx, tx, outbox.Message{Topic: what})
			_, err2 := w.in.Receive(ctx, tx, inbox.Message{Consumer: "billing", Source: "test", MessageID: what,
				Topic: what})
			_, err3 := w.timers.Set(ctx, tx, timers.Timer{Key: what, Topic: what})
			_, err4 := w.jobs.Enqueue(ctx, tx, jobs.Insert{Args: trouble{what}, Queue: "mail"})
			errs = append(errs, err, err2, err3, err4)
		}
		return errors.Join(errs...)
	}))
	w.ok(workqueue.InTx(ctx, w.db.Pool, func(tx workqueue.Tx) error {
		return w.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: "nightly", Expr: "@daily", Topic: "report"})
	}))
	_, err = w.db.Pool.Exec(ctx, "UPDATE timers_schedule SET zone = 'Nowhere', due_at = now() WHERE name = 'nightly'")
	w.ok(err)
	for _, message := range []string{"fails", "dies", "ends"} {
		_, _, err := store.CreateAlarm(ctx, alarms.New{OwnerDID: "did:web:o", UserID: "u", Kind: alarms.KindOnce,
			Delay: time.Second, WakeMessage: message})
		w.ok(err)
	}
	s, err := service.New(w.db.Pool, service.Options{Logger: logger,
		Reaper: reaper.Options{Interval: reaper.MinInterval}}, relay, consumer, clock, worker)
	w.ok(err)
	w.start(s)
}
