package workqueue_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// strict makes every session of a pool start its transactions SERIALIZABLE.
func strict(config *pgxpool.Config) {
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
}

func TestInTx(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.WithPool(strict))
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE notes (level text)"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	for name, c := range map[string]struct {
		end  func() error
		want error
	}{
		"commits":      {end: func() error { return nil }},
		"rolls back":   {end: func() error { return refused }, want: refused},
		"as on panics": {end: func() error { panic("oh") }},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { _ = recover() }()
			err := workqueue.InTx(t.Context(), db.Pool, func(tx workqueue.Tx) error {
				if _, err := tx.Exec(t.Context(),
					"INSERT INTO notes VALUES (current_setting('transaction_isolation'))"); err != nil {
					return err
				}
				return c.end()
			})
			if !errors.Is(err, c.want) {
				t.Errorf("got the error %v, want %v", err, c.want)
			}
		})
	}
	var kept string
	if err := db.Pool.QueryRow(t.Context(), "SELECT string_agg(level, ', ') FROM notes").Scan(&kept); err != nil ||
		kept != "read committed" {
		t.Errorf("the transactions that committed were %q, %v", kept, err)
	}
	if err := workqueue.InTx(t.Context(), nil, func(workqueue.Tx) error { return nil }); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("without a pool: got the error %v", err)
	}
}
