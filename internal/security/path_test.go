package security_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// impostors fills the search_path's first schema with a function, a type or a table of the same name and types for each
// of PostgreSQL's own, as far as PL/pgSQL can have its types. Whatever uses one of them fails.
const impostors = `
DO $$
DECLARE
    here constant text := current_schema();
    raises constant text := ' LANGUAGE plpgsql AS $f$BEGIN RAISE EXCEPTION ''an impostor''; END$f$';
    o record;
    n integer := 0;
BEGIN
    FOR o IN
        SELECT p.proname AS name, p.prokind AS kind, count(a.type) AS args,
            coalesce(string_agg(format_type(a.type, NULL), ', ' ORDER BY a.ord), '') AS types,
            CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || p.prorettype::regtype AS returns
        FROM pg_proc AS p
        LEFT JOIN unnest(p.proargtypes) WITH ORDINALITY AS a (type, ord) ON true
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.provariadic = 0
          AND NOT EXISTS (SELECT FROM pg_type AS t
            WHERE t.typtype = 'p' AND t.oid = ANY (p.proargtypes || p.prorettype)
              AND t.typname NOT IN ('anyelement', 'anyarray', 'anynonarray', 'anyrange')
              AND (t.typname NOT IN ('void', 'record') OR t.oid = ANY (p.proargtypes)))
          AND NOT EXISTS (SELECT FROM pg_aggregate AS g WHERE g.aggfnoid = p.oid AND g.aggkind <> 'n')
        GROUP BY p.oid, p.proname
    LOOP
        IF o.kind = 'f' THEN
            EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s', here, o.name, o.types, o.returns) || raises;
        ELSE
            n := n + 1;
            EXECUTE format('CREATE FUNCTION %I.impostor_%s(%s) RETURNS %s', here, n,
                concat_ws(', ', o.returns, nullif(o.types, '')), o.returns) || raises;
            EXECUTE format('CREATE AGGREGATE %I.%I(%s) (SFUNC = %I.impostor_%s, STYPE = %s)', here, o.name,
                CASE WHEN o.args = 0 THEN '*' ELSE o.types END, here, n, o.returns);
        END IF;
    END LOOP;
    FOR o IN
        SELECT t.typname AS name FROM pg_type AS t
        WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b' AND t.typcategory <> 'A'
          AND t.typname NOT IN ('char', 'bpchar')
    LOOP
        EXECUTE format('CREATE DOMAIN %I.%I AS pg_catalog.%I CHECK (false)', here, o.name, o.name);
    END LOOP;
    FOR o IN
        SELECT c.relname AS name FROM pg_class AS c
        WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
    LOOP
        EXECUTE format('CREATE TABLE %I.%I ()', here, o.name);
    END LOOP;
END
$$`

// impostorOperators does so for operators.
const impostorOperators = `
DO $$
DECLARE
    here constant text := current_schema();
    raises constant text := ' LANGUAGE plpgsql AS $f$BEGIN RAISE EXCEPTION ''an impostor''; END$f$';
    o record;
    n integer := 10000;
BEGIN
    FOR o IN
        SELECT p.oprname AS name, p.oprleft::regtype AS l, p.oprright::regtype AS r, p.oprresult::regtype AS returns
        FROM pg_operator AS p
        WHERE p.oprnamespace = 'pg_catalog'::regnamespace AND p.oprleft <> 0 AND p.oprright <> 0
    LOOP
        n := n + 1;
        EXECUTE format('CREATE FUNCTION %I.impostor_%s(%s, %s) RETURNS %s', here, n, o.l, o.r, o.returns) || raises;
        EXECUTE format('CREATE OPERATOR %I.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %I.impostor_%s)', here, o.name,
            o.l, o.r, here, n);
    END LOOP;
END
$$;`

// frozen has functions that a test of an application may put before PostgreSQL's own.
const frozen = `
CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql AS $$SELECT timestamptz '2001-01-01'$$;
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT timestamptz '2001-01-01'$$;
CREATE FUNCTION pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS $$SELECT true$$;
CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'origin'$$;
CREATE FUNCTION current_schemas(boolean) RETURNS name[] LANGUAGE sql AS $$SELECT '{pg_catalog}'::name[]$$;
CREATE FUNCTION set_config(text, text, boolean) RETURNS text LANGUAGE sql AS $$SELECT $2$$`

// hijacked makes a schema, and returns a search_path that names it before pg_catalog and the schema of the tables.
func hijacked(t *testing.T, db *pgtest.DB, with string) (path string) {
	t.Helper()
	other := pgtest.New(t)
	other.Define(t, with)
	return other.Schema + ", pg_catalog, " + db.Schema
}

// with returns a pool whose sessions have a setting from their beginning, as by ALTER ROLE.
func with(t *testing.T, db *pgtest.DB, setting, value string) *pgxpool.Pool {
	t.Helper()
	return pgtest.NewPool(t, db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams[setting] = value
	}))
}

// unfit are sessions in which SQL does not mean what it says.
func (f *fixture) unfit() map[string]*pgxpool.Pool {
	f.t.Helper()
	return map[string]*pgxpool.Pool{
		"search_path":              with(f.t, f.db, "search_path", hijacked(f.t, f.db, frozen)),
		"session_replication_role": with(f.t, f.db, "session_replication_role", "replica"),
	}
}

// Every part of a process refuses such sessions at its start, and says what to set.
func TestAProcessRefusesAnUnfitSession(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	for setting, pool := range f.unfit() {
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, workqueue.ErrSession) || !strings.Contains(err.Error(), setting+" is ") {
				t.Errorf("%s with another %s: %v", what, setting, err)
			}
		}
		for _, run := range f.workers(pool) {
			refused("worker", runs(t, run))
		}
		relay, err := outbox.NewRelay(pool, f.outbox, outbox.RelayOptions{})
		must(t, err)
		relay.Handle("sent", func(context.Context, *outbox.Delivery) error { return nil })
		s, err := service.New(pool, service.Options{Logger: quiet.Logger}, relay)
		must(t, err)
		refused("service", runs(t, s.Run))
		_, err = reaper.RunOnce(t.Context(), pool, f.coreTables(), reaper.Options{Schema: f.db.Schema,
			Logger: quiet.Logger})
		refused("reaper", err)
		for name, call := range f.operations(pool) {
			refused(name, call(t.Context()))
		}
	}
}

// runs runs what should not keep running.
func runs(t *testing.T, run func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	return run(ctx)
}

// operations are ways of the core to use rows in a transaction of their own.
func (f *fixture) operations(pool *pgxpool.Pool) map[string]func(context.Context) error {
	q := f.outbox.Table().On(pool)
	id, owner := []uuid.UUID{uuid.New()}, workqueue.NewOwnerToken()
	all := map[string]func(context.Context) error{
		"claim":  func(ctx context.Context) error { _, err := q.Claim(ctx, owner, time.Minute, 1); return err },
		"cancel": func(ctx context.Context) error { _, err := q.Cancel(ctx, id, "x"); return err },
		"sweep":  func(ctx context.Context) error { _, err := q.Sweep(ctx, 10); return err },
		"stats":  func(ctx context.Context) error { _, err := q.Stats(ctx); return err },
		"drain": func(ctx context.Context) error {
			relay, err := outbox.NewRelay(pool, f.outbox, outbox.RelayOptions{})
			must(f.t, err)
			relay.Handle("sent", func(context.Context, *outbox.Delivery) error { return nil })
			drain, err := relay.Drain()
			must(f.t, err)
			_, err = drain.Process(ctx)
			return err
		},
	}
	return all
}

// A producer whose search_path names another schema first writes what any other writes.
func TestAProducerUsesNothingOfOthers(t *testing.T) {
	f := newFixture(t)
	path := hijacked(t, f.db, impostors)
	pool := with(t, f.db, "search_path", path)
	f.enqueueEverywhere(pool)
	f.in(pool, f.configure)
	result, err := f.inbox.Process(t.Context(), pool, inbox.Key{Consumer: "c", Source: "s", MessageID: "processed"},
		func(context.Context, pgx.Tx) error { return nil })
	if err != nil || result.Answer != inbox.Processed {
		t.Errorf("process: %v, %v", result.Answer, err)
	}
	f.exec(f.db.Pool, "UPDATE timers SET due_at = now() WHERE status = 0")
	lanes := map[string][]any{"inbox": {"c"}, "jobs": {"default", 2}}
	for _, table := range f.coreTables() {
		err := f.try(pool, func(_ context.Context, tx workqueue.Tx) error {
			f.moves(table.In(tx), table.Spec().Table, lanes[table.Spec().Table])
			f.maintains(table.In(tx), table.Spec().Table)
			return errRollback
		})
		if !errors.Is(err, errRollback) {
			t.Error(err)
		}
	}
	f.callFunctions(pool)
}

var errRollback = errors.New("roll back")

// The statement of an insert has no operator that a schema could replace either.
func TestAnInsertUsesNoOperatorOfOthers(t *testing.T) {
	f := newFixture(t)
	pool := with(t, f.db, "search_path", hijacked(t, f.db, impostorOperators+impostors))
	f.in(pool, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.outbox.EnqueueMany(ctx, tx, outbox.Message{Topic: "sent", DedupKey: "new"},
			outbox.Message{Topic: "sent", Key: "k"},
			outbox.Message{Topic: "sent", ScheduledAt: time.Now().Add(time.Hour)})
		return err
	})
	f.in(pool, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.jobs.Enqueue(ctx, tx, jobs.Insert{
			Args:  printArgs{7},
			ByKey: keyed.Limited{Key: "k", MaxRunning: 2}})
		return err
	})
}

// Without triggers, an ordered or limited row would run at once, and a settle would not reach the key, the join or the
// limit. Writing one is refused, in the transaction of the application, too, whatever its driver. A row without a key
// needs no trigger but that which notifies.
func TestARowWithAKeyIsNotWrittenWithoutItsTriggers(t *testing.T) {
	f := newFixture(t)
	f.in(f.db.Pool, f.sendMessages)
	pool := with(t, f.db, "session_replication_role", "replica")
	ways := map[string]func(do func(ctx context.Context, tx workqueue.Tx) error) error{
		"pgx": func(do func(ctx context.Context, tx workqueue.Tx) error) error { return f.try(pool, do) },
		"database/sql": func(do func(ctx context.Context, tx workqueue.Tx) error) error {
			tx, err := stdlib.OpenDBFromPool(pool).BeginTx(t.Context(), nil)
			must(t, err)
			defer tx.Rollback()
			return do(t.Context(), workqueue.SQL(tx))
		},
	}
	for way, in := range ways {
		for _, rows := range [][]outbox.Message{{{Topic: "sent", Key: "k"}},
			{{Topic: "sent"}, {Topic: "sent", Key: "k"}}, {{Topic: "sent", Key: "k", DedupKey: "new"}}} {
			err := in(func(ctx context.Context, tx workqueue.Tx) error {
				_, err := f.outbox.EnqueueMany(ctx, tx, rows...)
				return err
			})
			if !errors.Is(err, workqueue.ErrSession) {
				t.Errorf("%s: %v", way, err)
			}
		}
		err := in(func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.jobs.Enqueue(ctx, tx, jobs.Insert{
				Args:  printArgs{7},
				ByKey: keyed.Limited{Key: "k", MaxRunning: 2}})
			return err
		})
		if !errors.Is(err, workqueue.ErrSession) {
			t.Errorf("%s, limited: %v", way, err)
		}
		err = in(func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.outbox.Table().In(tx).Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 1)
			return err
		})
		if !errors.Is(err, workqueue.ErrSession) {
			t.Errorf("%s, claim: %v", way, err)
		}
		must(t, in(func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "sent"})
			return err
		}))
	}
}

// A handler may change its session: it is then not settled in the handler's transaction.
func TestAHandlersSettleIsRefusedWithoutTriggers(t *testing.T) {
	f := newFixture(t)
	f.in(f.db.Pool, f.sendMessages)
	for _, statement := range []string{"SET LOCAL session_replication_role = replica",
		"SET session_replication_role = replica"} {
		relay, err := outbox.NewRelay(f.db.Pool, f.outbox, outbox.RelayOptions{})
		must(t, err)
		var settled error
		relay.Handle("sent", func(ctx context.Context, m *outbox.Delivery) error {
			settled = m.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			})
			return workqueue.RetryNow(settled)
		})
		drain, err := relay.Drain()
		must(t, err)
		drain.Limit = 1
		_, err = drain.Process(t.Context())
		must(t, err)
		if !errors.Is(settled, workqueue.ErrSession) {
			t.Errorf("%s: %v", statement, settled)
		}
	}
}

// A migrator makes the same schema whatever its session's search_path is, and gives the session back as it was.
func TestAMigratorStoresNothingOfOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	path := hijacked(t, db, impostorOperators+impostors)
	pool := with(t, db, "search_path", path)
	m, err := migrations.New(pool, migrations.Options{Schema: db.Schema, Logger: quiet.Logger})
	must(t, err)
	_, err = m.Up(t.Context())
	must(t, err)
	must(t, m.Validate(t.Context()))
	status, err := m.Status(t.Context())
	must(t, err)
	if len(status) == 0 || !status[0].Applied {
		t.Errorf("status: %v", status)
	}
	_, err = m.RowsAbove(t.Context(), 0)
	must(t, err)
	evil, _, _ := strings.Cut(path, ",")
	var n int
	must(t, db.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_depend AS d, pg_describe_object(d.refclassid, d.refobjid, 0) AS o
		WHERE d.classid <> 'pg_operator'::regclass AND o LIKE '%' || $1 || '%'
		  AND pg_describe_object(d.classid, d.objid, d.objsubid) LIKE '%' || $2 || '%'`, evil, db.Schema).Scan(&n))
	if n > 0 {
		t.Errorf("%d objects depend on the other schema", n)
	}
	for range 3 {
		var now string
		must(t, pool.QueryRow(t.Context(), "SHOW search_path").Scan(&now))
		if now != path {
			t.Errorf("the pool's session goes on with search_path %q", now)
		}
	}
	_, err = m.DownTo(t.Context(), 0)
	must(t, err)
}
