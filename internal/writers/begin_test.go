package writers

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
)

// A message that SQL and Go begin is the same: another content under its id is told, whoever comes first. A payload
// without a hash has its own.
func TestAMessageIsBegunInSQL(t *testing.T) {
	f := newFixture(t)
	box, err := inbox.Open(inbox.Options{Schema: f.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: quiet})
	f.ok(err)
	inSQL := func(id, more, want string) {
		t.Helper()
		if got := ask[string](f, "SELECT answer FROM txwork.inbox_begin('c', 's', '"+id+"'"+more+")"); got != want {
			t.Errorf("inbox_begin of %s%s is %s, want %s", id, more, got, want)
		}
	}
	inGo := func(id, body string, want inbox.Answer) {
		t.Helper()
		f.ok(workqueue.InTx(t.Context(), f.db.Pool, func(tx workqueue.Tx) error {
			k := inbox.Key{Consumer: "c", Source: "s", MessageID: id, Body: []byte(body), KeepBody: true}
			got, err := box.Begin(t.Context(), tx, k)
			if got.Answer != want {
				t.Errorf("Begin of %s with %s is %v, want %v", id, body, got.Answer, want)
			}
			return err
		}))
	}
	inSQL("sql", ", payload => 'one', id => NULL", "processed")
	inSQL("sql", ", payload => 'one'", "duplicate")
	inSQL("sql", "", "duplicate")
	inSQL("sql", ", payload => 'two'", "hash_mismatch")
	inGo("sql", "one", inbox.Duplicate)
	inGo("sql", "two", inbox.HashMismatch)
	inGo("go", "one", inbox.Processed)
	inSQL("go", ", payload => 'one'", "duplicate")
	inSQL("go", ", sha256('one')", "duplicate")
	inSQL("go", ", payload => 'two'", "hash_mismatch")
	f.ok(workqueue.InTx(t.Context(), f.db.Pool, func(tx workqueue.Tx) error {
		_, err := box.Receive(t.Context(), tx, inbox.Message{Consumer: "c", Source: "s", MessageID: "topic",
			Topic: "placed", Payload: []byte("one")})
		return err
	}))
	inSQL("topic", ", payload => 'one', topic => 'placed'", "in_progress")
	inSQL("topic", ", payload => 'one', topic => 'paid'", "hash_mismatch")
	inSQL("source", ", payload => 'one', topic => 's'", "processed")
	inSQL("source", ", payload => 'one', topic => ''", "duplicate")
	if n := ask[int](f, "SELECT count(*) FROM txwork.inbox WHERE body_hash = sha256('one') AND payload = 'one' "+
		"AND substr(id::text, 15, 1) = '7'"); n != 3 {
		t.Errorf("%d rows have the content and a hash of it, want 3", n)
	}
	_, err = f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.inbox_begin('c', 's', 'short', 'hash')"))
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "22023" || e.ColumnName != "body_hash" || e.Hint == "" {
		t.Errorf("a hash of 4 bytes: %v", err)
	}
}

// Whether another content came is never NULL, which many drivers do not take for false.
func TestAHashMismatchIsTrueOrFalse(t *testing.T) {
	f := newFixture(t)
	for i, want := range []bool{false, false, true} {
		body := []string{"one", "one", "two"}[i]
		if got := ask[bool](f, "SELECT hash_mismatch FROM txwork.inbox_receive('c', 's', 'm', $1::text)", body); got != want {
			t.Errorf("receive %d: %v, want %v", i+1, got, want)
		}
		const many = `SELECT hash_mismatch FROM txwork.inbox_receive_many(jsonb_build_array(jsonb_build_object(
			'consumer', 'c', 'source', 's', 'message_id', 'of many', 'payload_text', $1::text)))`
		if got := ask[bool](f, many, body); got != want {
			t.Errorf("receive_many %d: %v, want %v", i+1, got, want)
		}
	}
}
