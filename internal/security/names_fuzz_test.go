package security_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Queues, topics, keys, consumers and labels are values, never a part of a statement: each is either refused as
// invalid, or stored unchanged, and its row can be found by it.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"default", "", "a'b", `a"b`, "a;b", "--", "$1", "$txwork$", "%s", `\`, "ä", "\x00",
		"\xff", "🙂", " a ", "a\nb", "{{.Table}}", "@ids",
		"txwork.outbox", strings.Repeat("q", 63), strings.Repeat("q", 64), strings.Repeat("ä", 127),
		strings.Repeat("ä", 128), strings.Repeat("q", 300), "') ON CONFLICT DO NOTHING; --"} {
		f.Add(s)
	}
	db := pgtest.New(f)
	db.Define(f, tables(f, db.Schema))
	kinds := jobs.NewRegistry()
	jobs.Declare(kinds, jobs.KindOptions[printArgs]{})
	opened := &fixture{db: db, kinds: kinds}
	var errs [4]error
	opened.outbox, errs[0] = outbox.Open(outbox.Options{Schema: db.Schema, Ordering: outbox.PerKey, Telemetry: quiet})
	opened.inbox, errs[1] = inbox.Open(inbox.Options{Schema: db.Schema, DedupWindow: 30 * 24 * time.Hour,
		Telemetry: quiet})
	opened.timers, errs[2] = timers.Open(timers.Options{Schema: db.Schema, Telemetry: quiet})
	opened.jobs, errs[3] = jobs.Open(jobs.Options{Schema: db.Schema, Registry: kinds, Telemetry: quiet})
	must(f, errors.Join(errs[:]...))
	f.Fuzz(func(t *testing.T, name string) {
		one := *opened
		one.t = t
		one.storesNames(name)
	})
}

// storesNames writes a row for each kind of name, in transactions that are rolled back.
func (f *fixture) storesNames(name string) {
	for query, write := range map[string]func(ctx context.Context, tx workqueue.Tx) error{
		"SELECT count(*) FROM outbox WHERE topic = $1 AND key = $1 AND dedup_key = $1 AND concurrency_key = $1": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: name, Key: name, DedupKey: name,
				Headers: map[string]string{name: name}})
			return err
		},
		"SELECT count(*) FROM inbox WHERE consumer = $1 AND source = $1 AND message_id = $1": func(ctx context.Context,
			tx workqueue.Tx) error {
			_, err := f.inbox.Receive(ctx, tx, inbox.Message{Consumer: name, Source: name, MessageID: name,
				Topic: name})
			return err
		},
		"SELECT count(*) FROM timers WHERE key = $1 AND topic = $1": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.timers.Set(ctx, tx, timers.Timer{Key: name, Topic: name})
			return err
		},
		"SELECT count(*) FROM jobs WHERE queue = $1 AND position($1 IN concurrency_key) > 0 AND position($1 IN unique_key) > 0": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.jobs.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{1}, Queue: name,
				ByKey:  keyed.Ordered{Key: name},
				Unique: &jobs.Unique{Key: name}})
			return err
		},
		"SELECT count(*) FROM jobs_queue WHERE name = $1 AND max_running = 1": func(ctx context.Context,
			tx workqueue.Tx) error {
			return f.jobs.SetLimits(ctx, tx, name, jobs.Limits{MaxRunning: 1})
		},
		"SELECT count(*) FROM timers_schedule WHERE name = $1": func(ctx context.Context, tx workqueue.Tx) error {
			return f.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: name, Expr: "@daily", Topic: name})
		},
	} {
		f.storesName(name, query, write)
	}
}

func (f *fixture) storesName(name, query string, write func(ctx context.Context, tx workqueue.Tx) error) {
	ctx := f.t.Context()
	tx, err := f.db.Pool.Begin(ctx)
	must(f.t, err)
	defer tx.Rollback(context.WithoutCancel(ctx))
	switch err := write(ctx, workqueue.Pgx(tx)); {
	case errors.Is(err, workqueue.ErrInvalid):
		return
	case err != nil:
		f.t.Fatalf("%q is neither refused as invalid nor accepted by %s: %v", name, query, err)
	}
	var n int
	if err := tx.QueryRow(ctx, query, name).Scan(&n); err != nil || n != 1 {
		f.t.Fatalf("%s finds %d rows of %q: %v", query, n, name, err)
	}
	f.claims(ctx, tx, name)
}

// claims claims rows by the lane that has the name.
func (f *fixture) claims(ctx context.Context, tx pgx.Tx, name string) {
	for statement, args := range map[string][]any{
		"SELECT inbox_fetch($1, '60 s', 10, $2)": {workqueue.NewOwnerToken(), name},
		"SELECT jobs_fetch($1, '60 s', 10, $2)":  {workqueue.NewOwnerToken(), name},
	} {
		if _, err := tx.Exec(ctx, statement, args...); err != nil {
			f.t.Fatalf("%s with %q: %v", statement, name, err)
		}
	}
}
