package outbox_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// An application can use SQL alone: the procedure is all the maintenance that it needs, and a worker calls fold, claim
// and ack.
func TestMaintainIsAllThatSQLNeeds(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	old := f.enqueue(outbox.Message{Topic: "old"}, outbox.Message{Topic: "young"})
	f.exec("UPDATE " + f.table + " SET status = 2, completed_at = now() - interval '6 days'")
	f.exec("UPDATE "+f.table+" SET completed_at = now() - interval '8 days' WHERE id = $1", old[0])
	const keys, each = 20, 10
	for n := range each {
		var round []outbox.Message
		for key := range keys {
			round = append(round, outbox.Message{Topic: "t", Key: fmt.Sprint(key), Payload: []byte{byte(n)}})
		}
		f.enqueue(round...)
	}
	f.exec("CALL " + f.table + "_maintain()")
	lost := f.claimSQL(5)
	// the worker died
	f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '2 hours' WHERE id = ANY ($1)", lost)
	f.exec("CALL " + f.table + "_maintain(max_rows => 3)")
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 0 AND last_error LIKE 'lease expired at %'"); n != len(lost) {
		t.Errorf("%d rows were requeued, want %d", n, len(lost))
	}

	next := map[string]int{}
	for range 10 * each {
		for _, id := range f.claimSQL(keys) {
			key, n := f.message(id)
			if n != next[key] {
				t.Fatalf("key %s: message %d was claimed, want %d", key, n, next[key])
			}
			next[key]++
		}
		f.exec("SELECT " + f.table + "_ack(owner_token, ARRAY[id]) FROM " + f.table + " WHERE status = 1")
	}
	if done := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 2 AND topic = 't'"); done != keys*each {
		t.Errorf("%d messages were delivered, want %d", done, keys*each)
	}
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE topic IN ('old', 'young')"); n != 1 {
		t.Errorf("%d of the two ended rows are left, want the one within its retention", n)
	}
}

// claimSQL claims messages as a worker in SQL does.
func (f *fixture) claimSQL(most int) []uuid.UUID {
	f.Helper()
	f.exec("CALL " + f.table + "_fold()")
	rows, err := f.Pool.Query(f.Context(), "SELECT id FROM "+f.table+"_fetch($1, '60 s', $2) WHERE entry = 'row'",
		workqueue.NewOwnerToken(), most)
	if err != nil {
		f.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

// message returns the key of a message, and its number within the key.
func (f *fixture) message(id uuid.UUID) (key string, n int) {
	f.Helper()
	var payload []byte
	if err := f.Pool.QueryRow(f.Context(), "SELECT key, payload FROM "+f.table+" WHERE id = $1", id).Scan(&key,
		&payload); err != nil {
		f.Fatal(err)
	}
	return key, int(payload[0])
}

// Every part runs in a transaction of its own, so the caller must not have one open.
func TestMaintainRefusesAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "CALL "+f.table+"_maintain()")
		return err
	})
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "2D000" { // invalid_transaction_termination
		t.Errorf("the procedure says %v in a transaction", err)
	}
}

// The retention is that of the migration unless the call overrides it. If one part fails, the others still run.
func TestMaintainGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	ids := f.enqueue(outbox.Message{Topic: "done"}, outbox.Message{Topic: "failed"}, outbox.Message{Topic: "young"})
	f.exec("UPDATE "+f.table+" SET status = 2, completed_at = now() - interval '2 days' WHERE id = $1", ids[0])
	f.exec("UPDATE "+f.table+" SET status = 3, completed_at = now() - interval '2 days', failed_at = now() - "+
		"interval '2 days' WHERE id = $1", ids[1])
	f.exec("UPDATE "+f.table+" SET status = 2, completed_at = now() WHERE id = $1", ids[2])
	f.exec("CALL " + f.table + "_maintain()")
	if n := f.count("SELECT count(*) FROM " + f.table); n != 3 {
		t.Errorf("%d rows are left, want all three", n)
	}

	f.exec("ALTER FUNCTION " + f.table + "_reap_expired RENAME TO gone")
	_, err := f.Pool.Exec(t.Context(), "CALL "+f.table+"_maintain(retention => '1 day', failed_retention => '1 day')")
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != "P0001" {
		t.Errorf("the procedure says %v, want what failed", err)
	}
	if n := f.count("SELECT count(*) FROM " + f.table); n != 1 {
		t.Errorf("%d rows are left, want the young one", n)
	}
}

// Folds and repairs see what other sessions have committed meanwhile, whatever the session's defaults are.
func TestMaintainIsReadCommitted(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.enqueue(outbox.Message{Topic: "t", Key: "k"})
	conn, err := f.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const strict = "SET default_transaction_isolation = 'serializable'; SET default_transaction_read_only = on"
	if _, err := conn.Exec(t.Context(), strict); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CALL "+f.table+"_maintain()"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "RESET ALL"); err != nil {
		t.Fatal(err)
	}
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE NOT waiting"); n != 1 {
		t.Errorf("%d messages were let through, want 1", n)
	}
}
