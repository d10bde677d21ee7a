package pgschema

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NewReused is like [New], but may return the schema of an earlier test of this process: [DB.Define] must be called
// before anything else, and then finds its objects made if that test gave it the same statements. Creating and dropping
// the tables of all domains costs about a fifth of a second of processor time, emptying them a tenth of that.
//
// A schema is given to another test only if that one cannot tell the difference: the earlier test passed, since Define
// no object of the schema has been created, changed, dropped, analyzed, granted or commented on, and no session is
// left that used the schema last. The tables then have the rows that Define gave them. Otherwise the schema is dropped,
// as it is by New. No schema is reused on a server that outlives the process, where nobody would drop it in the end.
//
// A test gets the schema of a test with the same tables, which may be any text, since what such tests define is likely
// to be the same.
func NewReused(t testing.TB, server, tables string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	if private := privateURL.Load(); private == nil || *private != server {
		return New(t, server, configure...)
	}
	r := takeKept(tables)
	if r == nil {
		r = &reusable{schema: create(t, server), tables: tables}
	}
	t.Cleanup(func() {
		if !t.Failed() && r.reset(server) {
			keep(r)
			return
		}
		drop(t, server, r.schema)
	})
	db := open(t, server, r.schema, append(configure, r.watch)...)
	db.reusable = r
	return db
}

// reusable is a schema, and what [DB.Define] made in it.
type reusable struct {
	schema     string
	tables     string            // see NewReused
	statements string            // "" before Define
	defined    bool              // Define was called by the current test
	objects    string            // tells whether an object has changed
	rows       map[string][]byte // that tables have from the beginning, in the format of COPY
	sequences  string            // the statement that sets them as they were

	mu       sync.Mutex
	sessions []int32 // process IDs of the sessions that the current test's pool has opened
}

// kept are the schemas for later tests, by their tables. They are taken in turn, so that sessions of the last test have
// time to end.
var kept = struct {
	sync.Mutex
	schemas map[string][]*reusable
}{schemas: map[string][]*reusable{}}

func takeKept(tables string) *reusable {
	kept.Lock()
	defer kept.Unlock()
	schemas := kept.schemas[tables]
	if len(schemas) == 0 {
		return nil
	}
	kept.schemas[tables] = schemas[1:]
	return schemas[0]
}

func keep(r *reusable) {
	kept.Lock()
	defer kept.Unlock()
	r.defined, r.sessions = false, nil
	kept.schemas[r.tables] = append(kept.schemas[r.tables], r)
}

// Watch lets a schema be reused only when the sessions of another pool have ended.
func (db *DB) Watch(c *pgxpool.Config) {
	if db.reusable != nil {
		db.reusable.watch(c)
	}
}

// watch records the sessions of a pool.
func (r *reusable) watch(c *pgxpool.Config) {
	next := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		r.mu.Lock()
		r.sessions = append(r.sessions, int32(conn.PgConn().PID()))
		r.mu.Unlock()
		if next == nil {
			return nil
		}
		return next(ctx, conn)
	}
}

// define runs the first statements of a test, or finds that an earlier one has run them.
func (r *reusable) define(t testing.TB, server, statements string) error {
	if r.defined {
		r.objects = "" // whatever is defined later is in no other test's statements
		return run(server, r.schema, statements)
	}
	r.defined = true
	if r.statements == statements {
		return nil
	}
	if r.statements != "" {
		drop(t, server, r.schema)
		must(t, server, "CREATE SCHEMA "+r.schema)
	}
	r.statements = statements
	if err := run(server, r.schema, statements); err != nil {
		return err
	}
	return inSession(server, r.remember)
}

// remember records the state to which reset returns.
func (r *reusable) remember(ctx context.Context, conn *pgx.Conn) error {
	tables, err := r.read(ctx, conn)
	if err != nil {
		return err
	}
	r.rows = map[string][]byte{}
	for _, table := range tables {
		var rows bytes.Buffer
		if _, err := conn.PgConn().CopyTo(ctx, &rows, "COPY "+table+" TO STDOUT"); err != nil {
			return err
		}
		r.rows[table] = rows.Bytes()
	}
	return conn.QueryRow(ctx, sequencesQuery, r.schema).Scan(&r.sequences)
}

// read reads the fingerprint of the objects and returns the tables that have rows or had some.
func (r *reusable) read(ctx context.Context, conn *pgx.Conn) (tables []string, err error) {
	err = conn.QueryRow(ctx, objectsQuery, r.schema).Scan(&r.objects, &tables)
	return tables, err
}

// reset empties the tables and tells whether the schema is then as Define left it.
func (r *reusable) reset(server string) (same bool) {
	if r.objects == "" {
		return false
	}
	err := inSession(server, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if used, err := r.used(ctx, conn); used || err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			same, err = r.empty(ctx, conn)
			return err
		})
	})
	return err == nil && same
}

const endLimit = 100 * time.Millisecond // for the sessions of a test's closed pools

// used waits until no session of the pool is left, and none that mentioned the schema last, and tells whether one
// remains. It may hold an advisory lock, and the server notices only after a moment that its client is gone.
func (r *reusable) used(ctx context.Context, conn *pgx.Conn) (used bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for begun := time.Now(); ; time.Sleep(endLimit / 10) {
		err = conn.QueryRow(ctx, usedQuery, r.schema, sessionName, r.sessions).Scan(&used)
		if err != nil || !used || time.Since(begun) > endLimit {
			return used, err
		}
	}
}

// empty tells whether the objects are as Define left them, and then restores the tables' rows.
func (r *reusable) empty(ctx context.Context, conn *pgx.Conn) (same bool, err error) {
	before := r.objects
	tables, err := r.read(ctx, conn)
	if r.objects != before || err != nil {
		return false, err
	}
	if _, err := conn.Exec(ctx, r.emptying(tables)); err != nil {
		return false, err
	}
	for table, rows := range r.rows {
		_, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(rows), "COPY "+table+" FROM STDIN")
		if err != nil {
			return false, err
		}
	}
	if _, err := conn.Exec(ctx, forgetStatement, r.schema); err != nil {
		return false, err
	}
	_, err = r.read(ctx, conn) // TRUNCATE changes the row in pg_class
	return true, err
}

// emptying returns the statements that empty tables, without any trigger seeing it, and set the sequences. Tables that
// have rows from the beginning are small, so that DELETE is cheaper.
func (r *reusable) emptying(tables []string) string {
	statements := "SET LOCAL session_replication_role = replica; SET LOCAL lock_timeout = '1s';" + r.sequences
	for table := range r.rows {
		statements += "DELETE FROM " + table + ";"
	}
	others := slices.DeleteFunc(tables, func(table string) bool {
		_, initially := r.rows[table]
		return initially
	})
	if len(others) > 0 {
		statements += "TRUNCATE " + strings.Join(others, ", ")
	}
	return statements
}

const (
	// objectsQuery returns a fingerprint of everything in the catalogs that belongs to a schema, by the transactions
	// that wrote it last, and the tables with a page. It reads the catalogs by their indexes, since they are full of
	// what other tests have dropped.
	objectsQuery = `
		WITH d AS MATERIALIZED (
			SELECT classid, objid FROM pg_depend
			WHERE refclassid = 'pg_namespace'::regclass AND refobjid = $1::regnamespace
		),
		r (table_ids) AS MATERIALIZED (SELECT ARRAY(SELECT objid FROM d WHERE classid = 'pg_class'::regclass)),
		i (index_ids) AS MATERIALIZED (
			SELECT ARRAY(SELECT indexrelid FROM pg_index, r WHERE indrelid = ANY (table_ids))
		),
		a (ids) AS MATERIALIZED (SELECT table_ids || index_ids FROM r, i),
		t (id) AS MATERIALIZED ( -- asking for its size locks a table, and those of others must stay unlocked
			SELECT c.oid FROM r, pg_class AS c WHERE c.oid = ANY (table_ids) AND c.relkind = 'r'
		),
		o (id) AS (
			SELECT format('n %s', n.xmin) FROM pg_namespace AS n WHERE n.oid = $1::regnamespace
			UNION ALL SELECT format('class %s %s', c.oid, c.xmin) FROM a, pg_class AS c WHERE c.oid = ANY (ids)
			UNION ALL SELECT format('column %s %s %s', c.attrelid, c.attnum, c.xmin)
				FROM r, pg_attribute AS c WHERE c.attrelid = ANY (table_ids)
			UNION ALL SELECT format('default %s %s', c.oid, c.xmin)
				FROM r, pg_attrdef AS c WHERE c.adrelid = ANY (table_ids)
			UNION ALL SELECT format('index %s %s', c.indexrelid, c.xmin)
				FROM i, pg_index AS c WHERE c.indexrelid = ANY (index_ids)
			UNION ALL SELECT format('trigger %s %s', c.oid, c.xmin)
				FROM r, pg_trigger AS c WHERE c.tgrelid = ANY (table_ids)
			UNION ALL SELECT format('rule %s %s', c.oid, c.xmin)
				FROM r, pg_rewrite AS c WHERE c.ev_class = ANY (table_ids)
			UNION ALL SELECT format('policy %s %s', c.oid, c.xmin)
				FROM r, pg_policy AS c WHERE c.polrelid = ANY (table_ids)
			UNION ALL SELECT format('constraint %s %s', c.oid, c.xmin)
				FROM pg_constraint AS c WHERE c.connamespace = $1::regnamespace
			UNION ALL SELECT format('sequence %s %s', c.seqrelid, c.xmin)
				FROM r, pg_sequence AS c WHERE c.seqrelid = ANY (table_ids)
			UNION ALL SELECT format('statistics %s %s %s', c.starelid, c.staattnum, c.xmin)
				FROM a, pg_statistic AS c WHERE c.starelid = ANY (ids)
			UNION ALL SELECT format('comment %s %s %s', c.objoid, c.objsubid, c.xmin)
				FROM pg_description AS c WHERE c.objoid = ANY (ARRAY(SELECT objid FROM d))
			UNION ALL SELECT format('function %s %s', c.oid, c.xmin) FROM pg_proc AS c
				WHERE c.oid = ANY (ARRAY(SELECT objid FROM d WHERE classid = 'pg_proc'::regclass))
			UNION ALL SELECT format('type %s %s', c.oid, c.xmin) FROM pg_type AS c
				WHERE c.oid = ANY (ARRAY(SELECT objid FROM d WHERE classid = 'pg_type'::regclass))
			UNION ALL SELECT format('%s %s', classid, objid) FROM d
		)
		SELECT (SELECT md5(string_agg(id, ',' ORDER BY id)) FROM o),
			(SELECT coalesce(array_agg(id::regclass::text), '{}') FROM t WHERE pg_relation_size(id) > 0)`

	sequencesQuery = `
		SELECT coalesce(string_agg(format('SELECT setval(%L, %s, %L);', format('%I.%I', schemaname, sequencename),
			coalesce(last_value, start_value), last_value IS NOT NULL), ''), '')
		FROM pg_sequences WHERE schemaname = $1`

	forgetStatement = `
		SELECT pg_stat_reset_single_table_counters(oid) FROM pg_class
		WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'i')`

	usedQuery = `
		SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE pid = ANY ($3) OR application_name <> $2 AND query ~ ('\m' || $1 || '\M'))`
)
