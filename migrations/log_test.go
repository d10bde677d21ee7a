package migrations_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A log is made where it is named, and stays until it is named again.
func TestALogIsMadeWhereItIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	if tables := logTables(t, db); len(tables) > 0 {
		t.Errorf("nobody has named the log, and there is %v", tables)
	}
	named := newMigratorOf(t, db.Pool, db.Schema, migrations.Log)
	if applied := versions(up(t, named)); !slices.Equal(applied, []int64{7}) {
		t.Errorf("the log was named: applied %v", applied)
	}
	for range 2 {
		if applied := up(t, m); len(applied) > 0 {
			t.Errorf("the next run applied %v", applied)
		}
		if found, err := m.Differences(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		if has, absent, err := m.Domains(t.Context()); err != nil || !slices.Contains(has, migrations.Log) ||
			len(absent) > 0 {
			t.Errorf("the schema has %v and lacks %v: %v", has, absent, err)
		}
		exec(t, db.Pool, "SELECT outbox_log_append('t', '')")
		exec(t, db.Pool, "SELECT outbox_log_shift(98765432109)") // as a rebase does
	}
	if lost, err := named.RowsAbove(t.Context(), 0); err != nil || len(lost) != 1 || lost[0].Rows != 2 {
		t.Errorf("down takes %v, %v, want two messages", lost, err)
	}
	if taken, err := named.DownTo(t.Context(), 2); err != nil || !slices.Equal(versions(taken), []int64{7}) {
		t.Errorf("took %v back, %v", taken, err)
	}
	if tables := logTables(t, db); len(tables) > 0 {
		t.Errorf("%v remains", tables)
	}
	if applied := up(t, m); len(applied) > 0 {
		t.Errorf("what was taken back came again: %v", applied)
	}
}

func logTables(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	return lines(t, db.Pool, `SELECT relname::text FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relname LIKE 'outbox\_log%'`, db.Schema)
}

// What mends a log keeps the shift that a rebase has raised: without it, ids would begin again.
func TestMendingALogKeepsItsShift(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Log)
	up(t, m)
	exec(t, db.Pool, "SELECT outbox_log_shift(98765432109)")
	for _, harm := range []string{
		"ALTER TABLE outbox_log DROP CONSTRAINT outbox_log_own_xid", "ALTER TABLE outbox_log ALTER COLUMN xid DROP DEFAULT",
		"DROP TRIGGER outbox_log_guard ON outbox_log", "ALTER TABLE outbox_log ALTER COLUMN xid SET DEFAULT 1",
		"DROP TABLE outbox_log_state", "ALTER TABLE outbox_log_dedup ALTER COLUMN xid DROP DEFAULT",
		"DROP TABLE outbox_log_dedup", "DROP TRIGGER outbox_log_later_guard ON outbox_log_later",
		"DROP TABLE outbox_log_later",
	} {
		exec(t, db.Pool, harm)
		found, err := m.Differences(t.Context())
		if err != nil || found.Err() == nil {
			t.Errorf("%s: %v, %v", harm, found, err)
		}
		mend(t, db.Pool, found)
		if found, err := m.Differences(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s, mended: %v, %v", harm, found, err)
		}
		exec(t, db.Pool, "INSERT INTO outbox_log (topic, payload) VALUES ('t', '')")
		if n := value[int](t, db.Pool, "SELECT count(*) FROM outbox_log WHERE xid <= 98765432109"); n > 0 {
			t.Errorf("%s: ids began again", harm)
		}
		exec(t, db.Pool, "INSERT INTO outbox_log_dedup (topic, dedup_key, id) "+
			"VALUES ('t', gen_random_uuid(), gen_random_uuid())")
		if n := value[int](t, db.Pool, "SELECT count(*) FROM outbox_log_dedup WHERE xid <= 98765432109"); n > 0 {
			t.Errorf("%s: ids of dedup keys began again", harm)
		}
		if !value[bool](t, db.Pool, "SELECT count(*) = 1 AND min(shift) = 98765432109 FROM outbox_log_state") {
			t.Errorf("%s: the state has another shift, or none", harm)
		}
	}
}

// Producers write messages and read nothing, workers do what subscriptions need and change no message, and neither
// removes any.
func TestRolesOfALog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Log))
	prefix := "l_" + db.Schema
	text := roles(t, migrations.RoleOptions{Schema: db.Schema, Prefix: prefix,
		Domains: []migrations.Domain{migrations.Log}})
	exec(t, db.Pool, text)
	t.Cleanup(func() { dropRoles(t, db, prefix) })
	exec(t, db.Pool, text) // once more
	as := func(role string) *pgxpool.Pool {
		return pgtest.NewPool(t, db, pgtest.WithPool(func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["role"] = prefix + "_" + role
		}))
	}
	write := []string{"SELECT outbox_log_append('t', '', 'key')",
		"SELECT outbox_log_append('t', '', dedup_key => 'once')", "SELECT outbox_log_append('t', '', dedup_key => 'once')",
		"SELECT outbox_log_append('t', '', 'later', scheduled_at => now() + interval '1 hour')",
		"SELECT outbox_log_append('t', '', 'later')", "SELECT outbox_log_turn('key')",
		"INSERT INTO outbox_log (id, topic, key, headers, payload) VALUES (gen_random_uuid(), 't', 'k', NULL, '')"}
	decide := []string{"SELECT outbox_log_cancel(coalesce(array_agg(id), '{}')) FROM outbox_log_later",
		"SELECT outbox_log_subscribe('v', lanes => 2)", "SELECT outbox_log_pause('v')",
		"SELECT outbox_log_resume('v')", "SELECT outbox_log_change('v', '{t}', NULL, 3)",
		"SELECT outbox_log_replay('v', '-infinity')", "SELECT outbox_log_cut('v', '0')",
		"INSERT INTO outbox_log_loss (subscription, lane, began, ended, messages, oldest, newest, why) " +
			"VALUES ('v', 0, 1, 2, 1, now(), now(), 'cut')",
		"SELECT outbox_log_unsubscribe('v', parked => true)"}
	consume := []string{"CALL outbox_log_tick()", "SELECT outbox_log_parked_trim(10)",
		"SELECT outbox_log_parked_retain(10)",
		"SELECT outbox_log_subscribe('s', start => '-infinity')",
		"SELECT outbox_log_fetch('s', '00000000-0000-0000-0000-000000000001', '1 minute', 1)",
		"SELECT outbox_log_extend('s', '00000000-0000-0000-0000-000000000001', '2 minutes')",
		`SELECT outbox_log_settle('s', '00000000-0000-0000-0000-000000000001', p.page,
			format('[{"seq": %s}]', p.page)::jsonb) FROM outbox_log_position AS p`,
		"SELECT outbox_log_release('s', '00000000-0000-0000-0000-000000000001')",
		"SELECT outbox_log_unavailable('s', '00000000-0000-0000-0000-000000000001', 'away')"}
	read := []string{"SELECT FROM outbox_log", "SELECT FROM outbox_log_lag()",
		"SELECT FROM outbox_log_moving()", "SELECT FROM outbox_log_parked"}
	rewrite := []string{"UPDATE outbox_log_loss SET messages = 0", "DELETE FROM outbox_log_loss",
		"UPDATE outbox_log_state SET shift = 0", "UPDATE outbox_log_subscription SET name = 'x'"}
	change := []string{"UPDATE outbox_log SET topic = 'u'", "DELETE FROM outbox_log", "TRUNCATE outbox_log",
		"CALL outbox_log_trim()", "SELECT outbox_log_outlived('0', 1)",
		"SELECT outbox_log_rebase()", "SELECT outbox_log_shift(1)", "UPDATE outbox_log_dedup SET id = id",
		"DELETE FROM outbox_log_dedup", "UPDATE outbox_log_later SET payload = ''"}
	for _, c := range []struct {
		role          string
		may, mayNever []string
	}{
		{"producer", write, slices.Concat(consume, decide, read[:1], read[2:], change)},
		{"worker", slices.Concat(write, consume, decide, read), change},
		{"viewer", read, slices.Concat(write, consume, decide, change)},
		{"operator", slices.Concat(decide, read), slices.Concat(write, consume[:3], consume[4:], change, rewrite)},
		{"owner", slices.Concat(write, read, change[1:]), nil}, // to whom messages are unchangeable, too
	} {
		pool := as(c.role)
		if c.role == "producer" || c.role == "worker" {
			enqueueLogged(t, pool, db.Schema)
		}
		for _, statement := range c.may {
			if _, err := pool.Exec(t.Context(), statement); err != nil {
				t.Errorf("%s: %s: %v", c.role, statement, err)
			}
		}
		for _, statement := range c.mayNever {
			if _, err := pool.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("%s: %s: %v, want that it is forbidden", c.role, statement, err)
			}
		}
		if c.role == "worker" {
			relayLogged(t, pool, db.Schema)
		}
	}
}

// relayLogged delivers all messages of the log, one of them at its second attempt.
func relayLogged(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	box, err := outbox.Open(outbox.Options{Schema: schema, Storage: outbox.Log,
		Telemetry: workqueue.Telemetry{Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return box.Subscribe(t.Context(), workqueue.Pgx(tx),
			outbox.Subscription{Name: "relayed", From: outbox.Beginning})
	})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{Subscription: "relayed"})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	relay.HandleAll(func(context.Context, *outbox.Delivery) error {
		if calls.Add(1) == 1 {
			return workqueue.RetryNow(errors.New("not yet"))
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	var messages int64
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_log").Scan(&messages); err != nil {
		t.Fatal(err)
	}
	if !pgtest.Await(pgtest.Patience, func() bool { return calls.Load() > messages }) {
		t.Errorf("%d calls of a worker's handler for %d messages", calls.Load(), messages)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("a worker's relay: %v", err)
	}
}

// enqueueLogged writes messages in each way in which an outbox does.
func enqueueLogged(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	box, err := outbox.Open(outbox.Options{Schema: schema, Storage: outbox.Log, Ordering: outbox.PerKey,
		Telemetry: workqueue.Telemetry{Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	keyless, keyed := outbox.Message{Topic: "t"}, outbox.Message{Topic: "t", Key: "k"}
	once := outbox.Message{Topic: "t", DedupKey: "of a program"}
	later := outbox.Message{Topic: "t", Key: "of a program", ScheduledAt: time.Now().Add(time.Hour)}
	for _, msgs := range [][]outbox.Message{{keyless}, {keyed}, {keyless, keyed}, {once}, {keyed, once},
		{later}, {later, keyed}} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
			return err
		})
		if err != nil {
			t.Errorf("%+v: %v", msgs, err)
		}
	}
}

func dropRoles(t *testing.T, db *pgtest.DB, prefix string) {
	t.Helper()
	for _, role := range []string{"producer", "worker", "viewer", "operator", "migrator", "owner"} {
		role = prefix + "_" + role
		execContext(context.Background(), t, db.Pool, "DROP OWNED BY "+role+" CASCADE")
		execContext(context.Background(), t, db.Pool, "DROP ROLE "+role)
	}
}
