package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Under a stricter isolation, a renewal during the handler would turn its settle into a serialization failure.
func TestTxIsReadCommittedWhateverTheSessionSays(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	config := f.Pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	others := f.Pool
	f.Pool = pool
	result := make(chan error, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			err := m.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT FROM "+f.table)
				if err == nil { // as a renewal does
					_, err = others.Exec(ctx, "UPDATE "+f.table+" SET locked_until = locked_until + interval '1 s'")
				}
				return err
			})
			result <- err
			return err
		})
	})
	f.enqueue(outbox.Message{Topic: "a"})
	if err := receive(t, result); err != nil {
		t.Error(err)
	}
}

// The message that holds the key is deleted after the insert found it and before its id is read.
func TestDedupKeyThatIsFreedDuringTheInsert(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.enqueue(once("a", "x"))
	tx, err := f.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	in, err := f.box.Table().Insert(t.Context(), workqueue.SQL(&deletingTx{Tx: tx, f: f}),
		workqueue.NewRow{Values: values("a", nil, []byte{}, "once")})
	if err != nil || in[0].ID == uuid.Nil {
		t.Errorf("got %+v, %v", in, err)
	}
}

// A refusal by PostgreSQL would abort the application's transaction.
func TestNilBytesAreRefusedBeforeTheDatabaseSeesThem(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	tx, end := apptx.Pgx(f, f.DB)
	defer end(false)
	_, err := f.box.Table().Insert(t.Context(), tx, workqueue.NewRow{Values: values("a", nil, []byte(nil), nil)})
	if !errors.Is(err, workqueue.ErrInvalid) {
		t.Error(err)
	}
}
