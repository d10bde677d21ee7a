package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Table is the core instantiated on one domain table: its Spec, its statements and its telemetry. It holds no
// connection and is safe for concurrent use; open it once and keep it.
type Table struct {
	spec       Spec
	name       string
	claimed    []Column // what a claim returns
	topics     []int    // where the topic of a row is among them
	view       view
	statements func() *statements // rendered when one is first needed: most programs only read some tables
	inserts    insertStatements
	converters []converter
	telemetry  *telemetry.Recorder
	labels     labelColumns
	counted    int         // which label is the lane of history
	warned     atomic.Bool // that a migration is pending
}

// Open validates the Spec. It does not touch the database.
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
		spec: spec, name: spec.Name(), claimed: spec.claimed(), topics: spec.topicColumns(), view: v,
		statements: sync.OnceValue(func() *statements { return renderStatements(spec) }),
		inserts:    insertStatements{view: v, fields: v.insertFields()},
		converters: convertersOf(spec.Columns), telemetry: tel,
		labels: spec.labelColumns(), counted: spec.historyLane(),
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
	return &Queue{table: t, exec: poolExecutor{conn.Pool{Conns: pool}}}
}

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckVersion reports whether the table exists, whether this program can use it, and whether it has its triggers
// enabled. The table and the program need not have the same version: the table says which programs it serves, and the
// Spec with which tables its program works. The error is an [ErrSchemaVersion] and says which side is behind, or what
// to do. A table that fits although a migration of it is pending is logged, once. It checks the companion of the table,
// too. Workers call CheckVersion before they start. db is a pool, a connection or a transaction of pgx.
func (t *Table) CheckVersion(ctx context.Context, db rowQuerier) error {
	var comment, companion *string
	var names string
	var missing missingTrigger
	err := db.QueryRow(ctx, `SELECT obj_description(c.oid, 'pg_class'), coalesce((
			SELECT (regexp_match(p.prosrc, 'UPDATE "([a-z_][a-z0-9_]*)"\."' || c.relname || '"'))[1]
			FROM pg_proc p WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_settle_rows')::name
			LIMIT 1), n.nspname)::text, coalesce(m.name, ''), coalesce(m.relation, ''), coalesce(m.there, false), (
			SELECT coalesce(obj_description(o.oid, 'pg_class'), '') FROM pg_class o
			WHERE o.relnamespace = n.oid AND o.relname = $6)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN LATERAL (
			SELECT (c.relname || '_' || u.name) AS name, c.relname || u.side AS relation, t.oid IS NOT NULL AS there
			FROM unnest($3::text[], $4::text[], $5::text[]) u (name, function, side)
			JOIN pg_proc p ON p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_' || u.function)::name
				AND p.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype
			JOIN pg_class s ON s.relnamespace = c.relnamespace AND s.relname = (c.relname || u.side)::name
			LEFT JOIN pg_trigger t ON t.tgrelid = s.oid AND t.tgname = (c.relname || '_' || u.name)::name AND t.tgfoid = p.oid
			WHERE t.oid IS NULL OR t.tgenabled IN ('D', 'R')
			ORDER BY 1 LIMIT 1) m ON true
		WHERE n.nspname = $1 AND c.relname = $2`, append(append([]any{t.spec.Schema, t.spec.Table}, neededTriggers()...),
		t.spec.Companion.Table)...).Scan(&comment, &names, &missing.name, &missing.table, &missing.disabled, &companion)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("txwork: %w: table %s does not exist: %s, or name its schema in the options",
			ErrSchemaVersion, t.Name(), postgres.Migrate(t.spec.Schema, t.spec.Table))
	}
	if err != nil {
		return fmt.Errorf("txwork: reading the version of %s: %w", t.Name(), err)
	}
	if names != t.spec.Schema {
		return fmt.Errorf("txwork: %w: the schema of %s was renamed: its functions still name %s; run the SQL that %s prints, "+
			"and the migrations of tables of your own again", ErrSchemaVersion, t.Name(), names,
			postgres.Command(t.spec.Schema, "migrate", "validate"))
	}
	if err := t.checkMark(ctx, comment); err != nil {
		return err
	}
	if err := t.checkCompanion(ctx, companion); err != nil || missing.name == "" {
		return err
	}
	return missing.refuse(t)
}

// hides is the condition that row-level security hides rows of the table, or notes of its folds, from the role.
func (t *Table) hides() string {
	tables := []string{t.view.Table}
	for _, f := range t.spec.Folds {
		tables = append(tables, t.view.Function(f.Notes))
	}
	return sqltext.Hides(tables...)
}
