package workqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Table is the core instantiated on one domain table: its Spec, its rendered statements and its
// telemetry. It holds no connection and is safe for concurrent use; open it once and keep it.
type Table struct {
	spec       Spec
	name       string
	claimed    []Column // what a claim returns
	view       view
	statements statements
	inserts    insertStatements
	converters []converter
	telemetry  *telemetry
}

// Open validates the Spec and renders its statements. It does not touch the database.
func Open(spec Spec, t Telemetry) (*Table, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	spec = spec.withDefaults()
	tel, err := newTelemetry(t, spec)
	if err != nil {
		return nil, err
	}
	v := newView(spec)
	return &Table{
		spec: spec, name: spec.Name(), claimed: spec.claimed(), view: v,
		statements: renderStatements(spec), inserts: insertStatements{view: v, fields: v.insertFields()},
		converters: convertersOf(spec.Columns), telemetry: tel,
	}, nil
}

// Spec is the table's Spec with its defaults filled in.
func (t *Table) Spec() Spec { return t.spec }

// Name is the table's qualified name.
func (t *Table) Name() string { return t.name }

// In is the table's operations inside an application's transaction: they take effect when it commits.
// Use it under READ COMMITTED, PostgreSQL's default; stricter levels turn a concurrent claim into a
// serialization failure.
func (t *Table) In(tx Tx) *Queue {
	if tx == nil {
		tx = Pgx(nil) // refuses every operation
	}
	return &Queue{table: t, exec: tx}
}

// On is the table's operations in transactions of their own, one round trip each. They are READ
// COMMITTED whatever the session's default, and a transaction that lost a conflict is run again.
func (t *Table) On(pool *pgxpool.Pool) *Queue {
	return &Queue{table: t, exec: poolExecutor{pool: pool}}
}

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckVersion reports whether the table exists and was made for this version of the library. The error
// is an [ErrSchemaVersion] and says which side is behind. Workers call it before they start. db is a pool, a connection
// or a transaction of pgx.
func (t *Table) CheckVersion(ctx context.Context, db rowQuerier) error {
	var comment *string
	err := db.QueryRow(ctx, `SELECT obj_description(c.oid, 'pg_class')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, t.spec.Schema, t.spec.Table).Scan(&comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("txwork: %w: table %s does not exist: run `txwork migrate up` or your own migration, or name its "+
			"schema in the options",
			ErrSchemaVersion, t.Name())
	}
	if err != nil {
		return fmt.Errorf("txwork: reading the version of %s: %w", t.Name(), err)
	}
	return checkVersionComment(t.Name(), comment)
}

func checkVersionComment(table string, comment *string) error {
	var version int
	if comment == nil {
		comment = new(string)
	}
	if _, err := fmt.Sscanf(*comment, "txwork core %d", &version); err != nil {
		return fmt.Errorf("txwork: %w: table %s carries no version (its comment is %q, want %q): it was not made by txwork",
			ErrSchemaVersion, table, *comment, versionComment(SchemaVersion))
	}
	switch {
	case version < SchemaVersion:
		return fmt.Errorf("txwork: %w: table %s has version %d, this library needs %d: run `txwork migrate up`, or "+
			"your own migration for a table of your own",
			ErrSchemaVersion, table, version, SchemaVersion)
	case version > SchemaVersion:
		return fmt.Errorf("txwork: %w: table %s has version %d, this library knows up to %d: upgrade the library",
			ErrSchemaVersion, table, version, SchemaVersion)
	}
	return nil
}
