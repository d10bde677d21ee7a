package log_test

import (
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
)

// What the migration makes can be dropped, and made again. A schema that has no log has nothing of it.
func TestUpAndDown(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	f := &fixture{T: t, DB: db, name: db.Schema + ".outbox_log"}
	up, down, err := log.DDL(db.Schema)
	f.ok(err)
	objects := `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_type WHERE typnamespace = $1::regnamespace)`
	for range 2 {
		db.Define(t, up)
		f.subscribe("s")
		f.append(f.Pool, "m")
		f.want("s", f.drain("s", 10), "m")
		db.Define(t, down)
		if n := value[int](f, f.Pool, objects, db.Schema); n != 0 {
			t.Errorf("%d objects are left after the migration was reverted", n)
		}
		f.Pool.Reset() // plans of what was dropped
	}
}

// A log changes nothing of the outbox in the same schema, and is no fault of it.
func TestALogBesideAnOutbox(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	f := &fixture{T: t, DB: db, name: db.Schema + ".outbox_log"}
	m, err := migrations.New(f.Pool, migrations.Options{Schema: db.Schema,
		Domains: []migrations.Domain{migrations.Outbox}})
	f.ok(err)
	_, err = m.Up(f.Context())
	f.ok(err)
	up, down, err := log.DDL(db.Schema)
	f.ok(err)
	db.Define(t, up)
	if err := m.Validate(f.Context()); err != nil {
		t.Errorf("with a log: %v", err)
	}
	f.subscribe("s")
	box, err := outbox.Open(outbox.Options{Schema: db.Schema})
	f.ok(err)
	tx := f.begin()
	_, err = box.Enqueue(f.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "topic", Payload: []byte("row")})
	f.ok(err)
	f.append(tx, "log")
	f.ok(tx.Commit(f.Context()))
	f.want("the log", f.drain("s", 10), "log")
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+db.Schema+".outbox WHERE status = 0"); n != 1 {
		t.Errorf("the outbox has %d messages, want 1", n)
	}
	db.Define(t, down)
	differences, err := m.Differences(f.Context())
	f.ok(err)
	if len(differences) > 0 {
		t.Errorf("without the log: %v", differences)
	}
}
