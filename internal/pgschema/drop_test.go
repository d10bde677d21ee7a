package pgschema_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/internal/pgtest"
)

// A statement that an ended process has left behind on the server and the drop of its schema wait for each other: the
// server ends the drop, which is then repeated.
func TestDropThatDeadlocks(t *testing.T) {
	t.Parallel()
	server := pgschema.Server(t)
	left := make(chan error, 1)
	dropped := t.Run("schema", func(t *testing.T) {
		db := pgschema.New(t, server)
		db.Define(t, "CREATE TABLE a (); CREATE TABLE b ()")
		var first, last string // in the order in which the drop locks them
		const query = "SELECT objid::regclass::text FROM pg_depend WHERE refobjid = $1::regnamespace AND classid = " +
			"'pg_class'::regclass ORDER BY ctid"
		scan(t, db, &first, query+" LIMIT 1")
		scan(t, db, &last, query+" DESC LIMIT 1")
		holder := begun(t, db.URL, "LOCK TABLE "+first+" IN ACCESS SHARE MODE")
		other := begun(t, db.URL, "LOCK TABLE "+last+" IN ACCESS SHARE MODE")
		go func() { left <- deadlock(server, holder, other, db.Schema) }()
	})
	if !dropped {
		return
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// deadlock lets the other session wait for the drop first, and then the drop for the other session.
func deadlock(server string, holder, other *pgx.Conn, schema string) error {
	ctx := context.Background()
	watch, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer watch.Close(ctx)
	waits := func(pid uint32) bool {
		var waits bool
		err := watch.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks AS l WHERE NOT l.granted AND CASE WHEN $1 = 0 "+
			"THEN $2 = ANY (pg_blocking_pids(l.pid)) ELSE l.pid = $1 END)", int32(pid),
			int32(holder.PgConn().PID())).Scan(&waits)
		return err != nil || waits
	}
	pgtest.Await(pgtest.Patience, func() bool { return waits(0) }) // the drop waits for the holder
	created := make(chan error, 1)
	go func() {
		_, err := other.Exec(ctx, "CREATE TABLE "+schema+".c (); COMMIT")
		created <- err
	}()
	pgtest.Await(pgtest.Patience, func() bool { return waits(other.PgConn().PID()) })
	if err := holder.Close(ctx); err != nil {
		return err
	}
	return <-created
}

// begun opens a session with an open transaction that the deadlock detector does not end.
func begun(t *testing.T, url, statement string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err == nil {
		_, err = conn.Exec(t.Context(), "SET deadlock_timeout = '1h'; BEGIN; "+statement)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func scan[T any](t *testing.T, db *pgschema.DB, value *T, query string) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), query, db.Schema).Scan(value); err != nil {
		t.Fatal(err)
	}
}
