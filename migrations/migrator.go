package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// DefaultLockTimeout is how long a migration waits for the lock of a table.
const DefaultLockTimeout = 3 * time.Second

// Options of a [Migrator]. The zero value is usable.
type Options struct {
	// Schema holds txwork's tables. Default: [workqueue.DefaultSchema]. A database may have several such schemas, which
	// are independent of each other and have versions of their own.
	Schema string

	// Domains are the domains whose tables Up creates, and to which Validate, Status and Down apply. Up always includes
	// [Reaper], and [Timers] if [Alarms] are listed. Default: the domains that the schema has, or the [DefaultDomains]
	// if it has none.
	Domains []Domain

	// LockTimeout is how long a migration waits for the lock of a table that is in use. Later transactions queue behind
	// a waiting migration, so it fails after that time, is rolled back, and names the session that holds the lock. The
	// timeout also applies to [Migrator.Validate]. Whole milliseconds. Default: [DefaultLockTimeout].
	LockTimeout time.Duration

	// Logger receives a line for every migration and for each wait for another migrator. Default: [slog.Default].
	Logger *slog.Logger
}

// A Migrator brings one schema up and down. It holds no connection and is safe for concurrent use, also
// with migrators of other processes.
type Migrator struct {
	pool        *pgxpool.Pool
	schema      string
	domains     []Domain // of the Options
	lockTimeout time.Duration
	logger      *slog.Logger
	lock        schemaLock
	history     history
	migrations  []migration // of all domains
}

// Applied is a migration that was run, up or down.
type Applied struct {
	Version  int64         `json:"version"`
	Domain   Domain        `json:"domain"`
	Name     string        `json:"name"` // such as 001_outbox
	Duration time.Duration `json:"duration_ns"`
}

// New validates the options. It does not access the database. A Migrator uses one connection of the pool at a time, and
// only while a method runs. The connection must be a session of PostgreSQL: a pooler in transaction mode does not work.
func New(pool *pgxpool.Pool, o Options) (*Migrator, error) {
	if pool == nil {
		return nil, &workqueue.InvalidError{Field: "pool", Reason: "is nil"}
	}
	schema, err := schemaOrDefault(o.Schema)
	if err != nil {
		return nil, err
	}
	if err := checkDomains(o.Domains); err != nil {
		return nil, err
	}
	if o.LockTimeout < 0 || o.LockTimeout%time.Millisecond != 0 || o.LockTimeout > maxLockTimeout {
		return nil, validate.Errorf("lock timeout",
			"is %v, it must be whole milliseconds, at most %v, or 0 for the default", o.LockTimeout, maxLockTimeout)
	}
	o.LockTimeout = cmp.Or(o.LockTimeout, DefaultLockTimeout)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	logger := o.Logger.With("schema", schema)
	m := &Migrator{
		pool: pool, schema: schema, domains: slices.Clone(o.Domains), lockTimeout: o.LockTimeout, logger: logger,
		lock: newSchemaLock(schema, logger), migrations: load(schema),
	}
	if m.history, err = newHistory(schema); err != nil {
		return nil, err
	}
	return m, nil
}

// latest is the newest version that this library knows.
func (m *Migrator) latest() int64 { return m.migrations[len(m.migrations)-1].version }

func (m *Migrator) find(version int64) (migration, bool) {
	i := slices.IndexFunc(m.migrations, func(x migration) bool { return x.version == version })
	if i < 0 {
		return migration{}, false
	}
	return m.migrations[i], true
}

// Up applies all pending migrations of the schema's domains, each in a transaction of its own, and returns those that
// it applied, even together with an error. It creates the schema if that is missing. If several migrators start at
// once, one does the work; the others wait for it, until ctx ends, and find nothing to do.
//
// If the schema is newer than this library and still serves it, Up finds nothing to do in the domains that the schema
// has, so that an older process can start again. If it does not, Up returns a [workqueue.ErrSchemaVersion].
func (m *Migrator) Up(ctx context.Context) ([]Applied, error) { return m.UpTo(ctx, m.latest()) }

// UpTo is [Migrator.Up] up to and including a version.
func (m *Migrator) UpTo(ctx context.Context, version int64) ([]Applied, error) {
	if _, ok := m.find(version); !ok {
		return nil, m.unknown(version)
	}
	return m.migrate(ctx, applying, func(db *sql.DB) ([]*goose.MigrationResult, error) {
		domains, err := m.prepare(ctx, db)
		if err != nil {
			return nil, err
		}
		p, err := m.provider(db, of(m.migrations, domains))
		if err != nil {
			return nil, err
		}
		return p.UpTo(ctx, version)
	})
}

// DownTo reverts all migrations of the domains above a version, the newest first, and drops their tables with all their
// rows, and their columns. Count both before with [Migrator.RowsAbove]. It refuses to revert a domain that another
// domain needs, unless that is reverted, too. It returns the migrations that it reverted, even together with an error;
// none if there was nothing to do. Version 0 also drops the table of versions: what remains is the schema, without any
// object of txwork.
func (m *Migrator) DownTo(ctx context.Context, version int64) ([]Applied, error) {
	if _, ok := m.find(version); !ok && version != 0 {
		return nil, m.unknown(version)
	}
	return m.migrate(ctx, reverting, func(db *sql.DB) ([]*goose.MigrationResult, error) {
		has, err := m.history.state(ctx, db)
		if err != nil {
			return nil, err
		}
		chosen, err := m.removable(has)
		if err != nil {
			return nil, err
		}
		if err := m.refuseUnrecorded(ctx, db, has, chosen); err != nil {
			return nil, err
		}
		var results []*goose.MigrationResult
		if len(has.applied(chosen)) > 0 {
			p, err := m.provider(db, chosen)
			if err != nil {
				return nil, err
			}
			if results, err = p.DownTo(ctx, version); err != nil {
				return results, err
			}
		}
		return results, m.forget(ctx, db)
	})
}

func (m *Migrator) unknown(version int64) error {
	return &workqueue.InvalidError{Field: "version",
		Reason: fmt.Sprintf("%d is unknown, this library has 1 to %d", version, m.latest())}
}
