package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// maxHolders is how many holders a health report names. Younger ones are not the problem as long as these exist.
const maxHolders = 10

// A HealthReport is what an operator should look at first.
type HealthReport struct {
	// Tables has an entry for every table that could be read, in the order they were given.
	Tables []TableHealth `json:"tables"`

	// Holders keep vacuum from removing dead rows, the oldest first, at most ten. There is nearly always one, because
	// every running statement is a holder. Only old holders make a queue slow.
	Holders []Holder `json:"holders"`

	// HiddenSessions is the number of sessions that this role may not inspect. They may be older holders. Membership in
	// pg_read_all_stats shows them.
	HiddenSessions int64 `json:"hidden_sessions"`
}

// TableHealth is the depth and age of one table. Durations are nanoseconds in JSON.
type TableHealth struct {
	Table string `json:"table"`
	workqueue.Stats

	// OldestExpired is how long ago the oldest expired lease ended. If it is more than a few intervals, no reaper
	// serves the table.
	OldestExpired time.Duration `json:"oldest_expired"`
}

// HolderKind says what a [Holder] is, and so how to get rid of it.
type HolderKind string

const (
	Transaction         HolderKind = "transaction"          // an open transaction: pg_terminate_backend(pid)
	PreparedTransaction HolderKind = "prepared_transaction" // COMMIT or ROLLBACK PREPARED name
	ReplicationSlot     HolderKind = "replication_slot"     // pg_drop_replication_slot(name)
	Standby             HolderKind = "standby"              // a query on a standby with hot_standby_feedback
)

// A Holder keeps vacuum from removing rows that died after it began. Fields that the role may not see, or that do not
// apply, are empty. Durations are nanoseconds in JSON.
type Holder struct {
	Kind        HolderKind    `json:"kind"`
	PID         int32         `json:"pid,omitempty"`  // of the server process; for a slot, that of its reader, if any
	Name        string        `json:"name,omitempty"` // of a slot, or of a prepared transaction
	Role        string        `json:"role,omitempty"`
	Database    string        `json:"database,omitempty"`
	Application string        `json:"application_name,omitempty"`
	Client      string        `json:"client,omitempty"`       // address of the session's machine
	State       string        `json:"state,omitempty"`        // as in pg_stat_activity, prepared, active or inactive
	Xmin        string        `json:"xmin,omitempty"`         // the oldest transaction whose rows it may still see
	XminAge     int64         `json:"xmin_age"`               // how many transactions ago that began
	Age         time.Duration `json:"age,omitempty"`          // since it began; unknown for slots and standbys
	CatalogOnly bool          `json:"catalog_only,omitempty"` // it holds back the system catalogs, not the queues
}

// Health reads the state of the tables, and what holds back vacuum. It needs no leadership, changes nothing, and works
// on a standby. Its cost grows with the number of live rows and of dead letters. A table that cannot be read is missing
// from the report and named in the error.
func Health(ctx context.Context, pool *pgxpool.Pool, tables []*workqueue.Table) (HealthReport, error) {
	if err := validateTargets(pool, tables); err != nil {
		return HealthReport{}, err
	}
	report := HealthReport{Tables: []TableHealth{}, Holders: []Holder{}}
	var errs []error
	for _, table := range tables {
		health, err := tableHealth(ctx, pool, table)
		if err != nil {
			errs = append(errs, fmt.Errorf("txwork: health of %s: %w", table.Name(), err))
			continue
		}
		report.Tables = append(report.Tables, health)
	}
	if err := report.readHolders(ctx, pool); err != nil {
		errs = append(errs, fmt.Errorf("txwork: reading what holds back vacuum: %w", err))
	}
	return report, errors.Join(errs...)
}

func tableHealth(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table) (TableHealth, error) {
	h := TableHealth{Table: table.Name()}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) (err error) {
		if h.Stats, err = table.In(workqueue.Pgx(tx)).Stats(ctx); err != nil {
			return err
		}
		h.OldestExpired, err = oldestExpired(ctx, tx, table.Spec())
		return err
	})
	return h, err
}

// oldestExpired reads how long ago the oldest expired lease ended. It forbids the sequential scan that PostgreSQL would
// choose for a table without statistics.
func oldestExpired(ctx context.Context, tx pgx.Tx, spec workqueue.Spec) (time.Duration, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
		return 0, err
	}
	var seconds float64
	text := statement("oldest_expired", "table", pgx.Identifier{spec.Schema, spec.Table})
	err := tx.QueryRow(ctx, text).Scan(&seconds)
	return postgres.Seconds(seconds), err
}

func (r *HealthReport) readHolders(ctx context.Context, pool *pgxpool.Pool) error {
	holders, hidden, err := Holders(ctx, pool)
	r.HiddenSessions = hidden
	r.Holders = append(r.Holders, holders...)
	return err
}

// A Querier is a pool, a connection or a transaction of pgx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Holders lists what keeps vacuum from removing dead rows, the oldest first, at most ten, and returns the number of
// sessions that this role may not inspect. It is the part of [Health] that does not depend on tables.
func Holders(ctx context.Context, q Querier) (holders []Holder, hidden int64, err error) {
	if err := q.QueryRow(ctx, hiddenText).Scan(&hidden); err != nil {
		return nil, 0, err
	}
	rows, err := q.Query(ctx, holdersText, maxHolders)
	if err != nil {
		return nil, hidden, err
	}
	holders, err = pgx.CollectRows(rows, scanHolder)
	return holders, hidden, err
}

func scanHolder(row pgx.CollectableRow) (Holder, error) {
	var h Holder
	var seconds *float64
	err := row.Scan(&h.Kind, &h.PID, &h.Name, &h.Role, &h.Database, &h.Application, &h.State, &h.XminAge, &seconds,
		&h.CatalogOnly, &h.Client, &h.Xmin)
	if seconds != nil {
		h.Age = postgres.Seconds(*seconds)
	}
	return h, err
}
