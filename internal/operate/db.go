package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// ReadLimit is how long a statement of a read may take if no index bounds its work.
const ReadLimit = 10 * time.Second

// writeLimit is how long a statement that writes may take where those that read are bounded: it may wait for rows that
// others have locked.
const writeLimit = 30 * time.Second

// commitLimit is how long a commit may take that is under way when the operator interrupts it.
const commitLimit = 10 * time.Second

// A DB is the schema that an operator works on.
type DB struct {
	Pool   *pgxpool.Pool
	Schema string

	// Limit bounds each statement that reads. Default: what the session has.
	Limit time.Duration

	// Actor is who acts, for the audit.
	Actor Actor

	// Partial says that row-level security hides rows from the role, see [DB.Hidden].
	Partial bool
}

// A Refusal says which part of a request a table cannot answer. Nothing was done.
type Refusal struct {
	Field   string // such as status; empty if it is about several
	Problem string // goes behind the field
}

func (r Refusal) Error() string { return r.Field + r.Problem }

// Read runs do in one read-only transaction, so that a standby can serve it and all of do sees one snapshot. It reads
// by indexes, see [postgres.PinReads].
func (d *DB) Read(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, d.Pool, pgx.TxOptions{BeginQuery: d.begin()}, do)
}

// begin begins a transaction that reads, and makes its settings in the same round trip.
func (d *DB) begin() string {
	text := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT " + postgres.PinReads
	if d.Limit > 0 {
		text += fmt.Sprintf(", pg_catalog.set_config('statement_timeout', '%d', true)", d.Limit.Milliseconds())
	}
	return text
}

// reader reads for package survey.
func (d *DB) reader() survey.Reader {
	return survey.Reader{From: d.Pool, Limit: cmp.Or(d.Limit, ReadLimit)}
}

// Write runs do in a transaction. An error of the audit says what to do.
func (d *DB) Write(ctx context.Context, do func(workqueue.Tx) error) error {
	return d.advised(ctx, d.write(ctx, do))
}

// write runs do in a transaction. It asks for READ COMMITTED because the guards of the library rely on it. An
// interruption rolls back what has not been committed, but waits for a commit that is under way, so that the report
// matches what was done.
func (d *DB) write(ctx context.Context, do func(workqueue.Tx) error) error {
	tx, err := d.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // no effect after a commit
	if d.Limit > 0 {
		const bound = "SELECT set_config('statement_timeout', $1::bigint::text, true)"
		if _, err := tx.Exec(ctx, bound, max(d.Limit, writeLimit).Milliseconds()); err != nil {
			return err
		}
	}
	if err := cmp.Or(do(workqueue.Pgx(tx)), ctx.Err()); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	return tx.Commit(limit)
}

// Now returns the time of the database.
func (d *DB) Now(ctx context.Context) (now time.Time, err error) {
	return now, d.Pool.QueryRow(ctx, "SELECT now()").Scan(&now)
}

// TableNames lists the txwork tables of the schema, those of an application's own too. They are recognised by their
// comment.
func (d *DB) TableNames(ctx context.Context) (names []string, err error) {
	err = d.Read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT c.relname::text
			FROM pg_catalog.pg_class AS c
			JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
			  AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
			ORDER BY c.relname`, d.Schema)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}

// Hidden returns the names of those of the tables of which row-level security hides rows from the role, or rows of a
// table that belongs to one: what is found and counted is then a part, and a row that is not found may exist.
func (d *DB) Hidden(ctx context.Context, tables []*workqueue.Table) (hidden []string, err error) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Spec().Table
	}
	const query = `
		SELECT $1::text || '.' || t.name FROM unnest($2::text[]) WITH ORDINALITY AS t (name, place)
		WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c
		    WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AND c.relrowsecurity
		      AND (c.relname = t.name OR pg_catalog.starts_with(c.relname::text, t.name || '_'))
		      AND pg_catalog.row_security_active(c.oid))
		ORDER BY t.place`
	err = d.Read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, d.Schema, names)
		if err != nil {
			return err
		}
		hidden, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return hidden, err
}

// structs reads the rows of a statement into structs, by the names of the columns.
func structs[T any](ctx context.Context, tx pgx.Tx, text string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}
