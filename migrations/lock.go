package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"
)

const (
	// lockInterval is how often a waiting migrator asks for the lock. It asks instead of waiting in the server, because
	// a waiting statement holds a snapshot, and a CREATE INDEX CONCURRENTLY in the session that has the lock would wait
	// for that snapshot.
	lockInterval = 100 * time.Millisecond

	// unlockTimeout bounds how long unlocking waits for a server that no longer answers.
	unlockTimeout = 5 * time.Second
)

// A schemaLock is the advisory lock under which the migrations of one schema run. A session that has it can take it
// again, and must then release it as often. It implements goose's lock.SessionLocker.
type schemaLock struct {
	id     int64
	logger *slog.Logger
}

func newSchemaLock(schema string, logger *slog.Logger) schemaLock {
	h := fnv.New64a()
	h.Write([]byte("txwork migrations " + schema))
	return schemaLock{id: int64(h.Sum64()), logger: logger}
}

// SessionLock waits for the lock until ctx ends.
func (l schemaLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for waiting := false; ; waiting = true {
		var held bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", l.id).Scan(&held); err != nil || held {
			return err
		}
		if !waiting {
			l.logger.InfoContext(ctx, "waiting for another migrator")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another migrator: %w", ctx.Err())
		case <-time.After(lockInterval):
		}
	}
}

// SessionUnlock releases the lock once.
func (l schemaLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held bool
	if err := conn.QueryRowContext(ctx, "SELECT pg_advisory_unlock($1)", l.id).Scan(&held); err != nil {
		return err
	}
	if !held {
		return errors.New("the session lost the migration lock: connect to PostgreSQL directly, not through a pooler " +
			"of transactions")
	}
	return nil
}

// exclusively runs work while no other migrator of the schema runs. It uses one session of the pool, so a pool of one
// connection is enough. goose takes the same lock again around its migrations, so they remain protected if the session
// breaks and goose continues in a new one.
func (m *Migrator) exclusively(ctx context.Context, work func(db *sql.DB) error) (err error) {
	db := m.session()
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := onConn(ctx, db, m.lock.SessionLock); err != nil {
		return err
	}
	defer func() {
		// A broken session has lost its lock, too, but the error that broke it is the better message.
		if unlockErr := m.unlock(ctx, db); err == nil {
			err = unlockErr
		}
	}()
	return work(db)
}

func (m *Migrator) unlock(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	return onConn(ctx, db, m.lock.SessionUnlock)
}

func onConn(ctx context.Context, db *sql.DB, do func(context.Context, *sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(ctx, conn)
}
