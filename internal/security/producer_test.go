package security_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// printArgs are the args of the fixture's kind of jobs.
type printArgs struct{ Page int }

func (printArgs) Kind() string { return "print" }

// enqueueEverywhere does everything that a producer may do.
func (f *fixture) enqueueEverywhere(pool *pgxpool.Pool) {
	f.t.Helper()
	for _, do := range []func(context.Context, workqueue.Tx) error{f.sendMessages, f.startJoin, f.receiveMessages,
		f.setTimers, f.createAlarms, f.enqueueJobs, f.enqueueGroups, f.writeLetters} {
		f.in(pool, do)
	}
}

func (f *fixture) sendMessages(ctx context.Context, tx workqueue.Tx) error {
	first, err := f.outbox.EnqueueMany(ctx, tx, outbox.Message{Topic: "sent", DedupKey: "1", Payload: []byte("a")},
		outbox.Message{Topic: "sent", Key: "k"}, outbox.Message{Topic: "sent", Key: "k"})
	if err != nil {
		return err
	}
	again, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "sent", DedupKey: "1"})
	if err == nil && again != (workqueue.Enqueued{ID: first[0].ID, Duplicate: true}) {
		return errors.New("a duplicate was written")
	}
	return err
}

func (f *fixture) startJoin(ctx context.Context, tx workqueue.Tx) error {
	end := outbox.Message{Topic: "sent"}
	_, err := f.outbox.StartJoin(ctx, tx, outbox.Join{Steps: []outbox.Message{{Topic: "sent"}, {Topic: "sent"}},
		OnComplete: &end})
	return err
}

func (f *fixture) receiveMessages(ctx context.Context, tx workqueue.Tx) error {
	message := inbox.Message{Consumer: "c", Source: "s", MessageID: uuid.NewString(), Topic: "received",
		Payload: []byte("a"), BodyHash: make([]byte, 32)}
	results, err := f.inbox.ReceiveMany(ctx, tx, message, message)
	if err == nil && results[1].Answer == inbox.Processed {
		return errors.New("a duplicate was taken for a message")
	}
	return err
}

func (f *fixture) setTimers(ctx context.Context, tx workqueue.Tx) error {
	for range 2 { // the second call moves it
		if _, err := f.timers.SetMany(ctx, tx, timers.Timer{Key: "t1", Topic: "fired", Delay: time.Millisecond},
			timers.Timer{Key: "t2", Topic: "fired", Delay: time.Hour}); err != nil {
			return err
		}
	}
	_, err := f.timers.Get(ctx, tx, "t1")
	if err == nil {
		_, err = f.timers.Cancel(ctx, tx, "t2")
	}
	return err
}

func (f *fixture) createAlarms(ctx context.Context, tx workqueue.Tx) error {
	store := f.alarms.In(tx)
	wake := alarms.New{OwnerDID: "did:x", UserID: "u", Kind: alarms.KindOnce, Delay: time.Second, WakeMessage: "wake",
		IdempotencyKey: uuid.NewString()}
	if _, _, err := store.CreateAlarm(ctx, wake); err != nil {
		return err
	}
	a, deduped, err := store.CreateAlarm(ctx, wake)
	if err != nil || !deduped {
		return errors.Join(err, errors.New("an alarm was created twice"))
	}
	if _, err := store.ListAlarms(ctx, "did:x", 10); err != nil {
		return err
	}
	_, err = store.CancelAlarm(ctx, a.ID, "did:x")
	return err
}

func (f *fixture) enqueueJobs(ctx context.Context, tx workqueue.Tx) error {
	for page := range 2 {
		if _, err := f.jobs.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{page},
			Unique: &jobs.Unique{Key: "only", OnConflict: jobs.Replace}}); err != nil {
			return err
		}
	}
	_, err := f.jobs.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{7}, Queue: "slow",
		ByKey: keyed.Ordered{Key: "printer"}})
	return err
}

func (f *fixture) enqueueGroups(ctx context.Context, tx workqueue.Tx) error {
	if _, err := f.jobs.StartBatch(ctx, tx, jobs.Batch{Jobs: []jobs.Insert{{Args: printArgs{1}},
		{Args: printArgs{2}}}}); err != nil {
		return err
	}
	w := jobs.NewWorkflow("book")
	first := w.Task("first", jobs.Insert{Args: printArgs{1}})
	w.Task("second", jobs.Insert{Args: printArgs{2}}, jobs.After(first))
	_, err := f.jobs.StartWorkflow(ctx, tx, w)
	return err
}

func (f *fixture) writeLetters(ctx context.Context, tx workqueue.Tx) error {
	values := func(address string) []any {
		all := make([]any, len(f.own.Spec().Columns))
		all[0], all[1] = address, "text"
		return all
	}
	address := uuid.NewString()
	rows, err := f.own.Insert(ctx, tx, workqueue.NewRow{Values: values(address)},
		workqueue.NewRow{Values: values(uuid.NewString())})
	if err != nil {
		return err
	}
	again, err := f.own.Insert(ctx, tx, workqueue.NewRow{Values: values(address)})
	if err != nil || !again[0].Duplicate {
		return errors.Join(err, errors.New("a letter was written twice"))
	}
	joins, err := join.Open(f.own)
	if err == nil {
		_, err = joins.Start(ctx, tx, join.Join{Members: []uuid.UUID{rows[0].ID}})
	}
	return err
}

func TestAProducerEnqueuesEverywhere(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.as("producer"))
	for table, want := range map[string]int{"outbox": 6, "inbox": 1, "timers": 3, "alarms": 1, "jobs": 6, "letters": 2,
		"outbox_join": 1, "letters_join": 1} {
		if got := ask[int](f, "SELECT count(*) FROM "+table); got != want {
			t.Errorf("%s has %d rows, want %d", table, got, want)
		}
	}
}

// queues are the core tables that producers write, with the column of their payload.
var queues = map[string]string{"outbox": "payload", "inbox": "payload", "timers": "payload", "jobs": "args",
	"letters": "text"}

func TestAProducerDoesNothingElse(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	producer := f.as("producer")
	token, ids := workqueue.NewOwnerToken(), []uuid.UUID{uuid.New()}
	for table, payload := range queues {
		if table != "timers" { // timers are set in the row that has the key
			for _, column := range []string{payload, "last_error", "owner_token", "*"} {
				f.refuses(producer, forbidden, "SELECT "+column+" FROM "+table)
			}
			f.refuses(producer, forbidden, "UPDATE "+table+" SET status = 2, completed_at = now()")
			f.refuses(producer, forbidden, "UPDATE "+table+" SET cancelled_at = now()")
			f.refuses(producer, forbidden, "INSERT INTO "+table+" (status) VALUES (2)")
		}
		f.refuses(producer, forbidden, "UPDATE "+table+
			" SET status = 1, owner_token = gen_random_uuid(), locked_until = now()")
		f.refuses(producer, forbidden, "DELETE FROM "+table)
		f.refuses(producer, forbidden, "SELECT "+table+"_ack($1, $2)", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_retry($1, $2)", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_fail($1, $2, 'x')", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_extend($1, $2, '60 s')", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_snooze($1, $2, '60 s')", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_wait_until($1, $2, now())", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_release($1, $2)", token, ids)
		f.refuses(producer, forbidden, "SELECT "+table+"_settle('[]')")
		f.refuses(producer, forbidden, "SELECT "+table+"_complete($1, $1)", token)
		f.refuses(producer, forbidden, "SELECT * FROM "+table+"_reap_expired()")
		f.refuses(producer, forbidden, "SELECT "+table+"_fold_step(1000, NULL, 0)")
		f.refuses(producer, forbidden, "SELECT * FROM "+table+"_purge()")
		f.refuses(producer, forbidden, "CALL "+table+"_maintain()")
		f.refuses(producer, forbidden, "SELECT "+table+"_redrive($1)", ids)
	}
	for _, claim := range []string{"outbox_fetch($1, '60 s', 10)", "inbox_fetch($1, '60 s', 10, 'c')",
		"timers_fetch($1, '60 s', 10)", "jobs_fetch($1, '60 s', 10)", "letters_fetch($1, '60 s', 10)"} {
		f.refuses(producer, forbidden, "SELECT "+claim, token)
	}
	for _, call := range []string{"outbox_join_end(NULL, 1::smallint, NULL)", "jobs_join_end(NULL, 1::smallint, NULL)",
		"outbox_key_sweep(1)", "outbox_key_fold(1)", "jobs_admit('default', 1)", "inbox_begin('c', 's', 'm')",
		"inbox_strip()", "owner_token(1)"} {
		f.refuses(producer, forbidden, "SELECT "+call)
	}
	f.refuses(producer, forbidden, "CALL process_beat(1, 'h', 'l', 'v')")
	for _, table := range []string{"timers_schedule", "jobs_schedule", "leader", "process", "history",
		"history_flush", "history_keep", "audit_keep", "schema_version",
		"schema_domain", "jobs_queue", "jobs_step", "outbox_key_cursor"} {
		f.refuses(producer, forbidden, "SELECT FROM "+table)
		f.refuses(producer, forbidden, "DELETE FROM "+table)
	}
	f.refusesDDL(producer)
}

// unwritable are the columns that no INSERT of a producer names: those of every table, and those of some. The owner may
// write them, to restore a dump.
var unwritable = map[string][]string{
	"": {"attempts", "status", "locked_until", "owner_token", "completed_at", "failed_at", "cancelled_at", "last_error",
		"created_at"},
	"outbox": {"aside"}, "inbox": {"aside"}, "letters": {"aside"},
	"timers": {"rearm_at", "rearm_topic", "rearm_payload", "rearm_headers", "rearm_max_attempts"},
	"jobs":   {"slot", "trail", "freed_key", "progress", "progress_note", "output"},
}

func TestWhatAnInsertOfAProducerNames(t *testing.T) {
	f := newFixture(t)
	producer := f.as("producer")
	page, err := os.ReadFile("../../docs/sql.md")
	must(t, err)
	refusedOnPage := regexp.MustCompile("(?m)^\\| ([^|]*) \\| `(\\w+)` \\| [^|]* \\| refused \\|")
	onPage := refusedOnPage.FindAllStringSubmatch(string(page), -1)
	if len(onPage) != len(unwritable["jobs"]) {
		t.Errorf("the page calls %d columns refused", len(onPage))
	}
	for table := range queues {
		refused := slices.Concat(unwritable[""], unwritable[table])
		for _, column := range refused {
			f.refuses(producer, forbidden, "INSERT INTO "+table+" ("+column+") VALUES (NULL)")
		}
		for _, m := range onPage {
			if strings.Contains(m[1], "`"+table+"`") && !slices.Contains(refused, m[2]) {
				t.Errorf("a producer may write %s.%s, which the page calls refused", table, m[2])
			}
		}
		names := f.lines("SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = $1::regclass AND "+
			"a.attnum > 0 AND NOT a.attisdropped AND NOT has_column_privilege($2, a.attrelid, a.attnum, 'INSERT')",
			table, f.role("producer"))
		slices.Sort(names)
		slices.Sort(refused)
		if !slices.Equal(names, refused) {
			t.Errorf("%s: a producer may not write %v, want %v", table, names, refused)
		}
	}
}

// A join ends only when a worker settles and folds, even if it is complete when it starts. The worker also settles the
// steps that are added to a running join.
func TestAProducerEndsNoJoin(t *testing.T) {
	f := newFixture(t)
	producer := f.as("producer")
	f.in(producer, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.outbox.StartJoin(ctx, tx, outbox.Join{})
		return err
	})
	f.refuses(producer, forbidden, "SELECT outbox_join_fold(10)")
	if ended := ask[int](f, "SELECT count(*) FROM outbox_join WHERE status <> 0"); ended != 0 {
		t.Errorf("a producer has ended %d joins", ended)
	}
	if _, err := f.outbox.Table().On(f.as("worker")).Fold(t.Context()); err != nil {
		t.Error(err)
	}
	if ended := ask[int](f, "SELECT count(*) FROM outbox_join WHERE status = 1"); ended != 1 {
		t.Errorf("a worker has completed %d joins without steps, want 1", ended)
	}
	var batch jobs.StartedBatch
	f.in(producer, func(ctx context.Context, tx workqueue.Tx) (err error) {
		batch, err = f.jobs.StartBatch(ctx, tx, jobs.Batch{Jobs: []jobs.Insert{{Args: printArgs{1}}}})
		return err
	})
	add := func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.jobs.AddToBatch(ctx, tx, batch.ID, jobs.Insert{Args: printArgs{2}})
		return err
	}
	f.isRefused(forbidden, "a step more", f.try(producer, add))
	f.in(f.as("worker"), add)
	f.refuses(producer, forbidden, "UPDATE jobs_join SET succeeded = expected")
	f.refuses(producer, forbidden, "UPDATE jobs_join_member SET outcome = 1")
	f.refuses(producer, forbidden, "DELETE FROM jobs_join_member")
	f.refuses(producer, forbidden, "DELETE FROM jobs_join_note")
}

// A producer of timers may move and cancel them. Firing is for the worker: the table's own check keeps the producer
// from claiming and settling.
func TestAProducerOfTimersNeitherClaimsNorSettles(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	f.exec(f.db.Pool, "UPDATE timers SET status = 1, owner_token = gen_random_uuid(), locked_until = now() + "+
		"interval '1 hour', attempts = 1 WHERE key = 't1'")
	producer := f.as("producer")
	f.in(producer, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.timers.Set(ctx, tx, timers.Timer{Key: "t3", Topic: "fired"})
		return err
	})
	f.refuses(producer, againstCheck, "UPDATE timers SET status = 1, owner_token = gen_random_uuid(), attempts = 1 "+
		"WHERE key = 't3'")
	f.refuses(producer, againstCheck, "UPDATE timers SET status = 2, completed_at = now() WHERE status = 1")
	f.refuses(producer, againstCheck, "UPDATE timers SET status = 0, owner_token = NULL WHERE status = 1")
	f.refuses(producer, forbidden, "UPDATE timers SET locked_until = now()")
}

func (f *fixture) refusesDDL(pool *pgxpool.Pool) {
	f.t.Helper()
	f.refuses(pool, forbidden, "CREATE TABLE {schema}.mine ()")
	f.refuses(pool, forbidden, "CREATE FUNCTION {schema}.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	f.refuses(pool, forbidden, "DROP FUNCTION {schema}.outbox_announce() CASCADE")
	f.refuses(pool, forbidden, "ALTER FUNCTION {schema}.outbox_announce() SECURITY DEFINER")
	f.refuses(pool, forbidden, "CREATE TRIGGER mine AFTER INSERT ON {schema}.outbox EXECUTE FUNCTION "+
		"{schema}.outbox_announce()")
	f.refuses(pool, forbidden, "SET ROLE "+f.role("owner"))
	for _, table := range f.tables() {
		f.refuses(pool, forbidden, "TRUNCATE "+table+" CASCADE")
		f.refuses(pool, forbidden, "ALTER TABLE "+table+" ADD COLUMN mine int")
		f.refuses(pool, forbidden, "ALTER TABLE "+table+" DISABLE TRIGGER ALL")
		f.refuses(pool, forbidden, "CREATE INDEX ON "+table+" ((1))")
		f.refuses(pool, forbidden, "DROP TABLE "+table+" CASCADE")
	}
}
