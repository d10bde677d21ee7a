package workqueue_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A formattingTx formats statements itself, as bun.Tx does: it puts arguments in the place of "?", finds none, and
// sends the statement on without them.
type formattingTx struct{ *sql.Tx }

func (tx formattingTx) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return tx.Tx.ExecContext(ctx, query)
}

func (tx formattingTx) QueryContext(ctx context.Context, query string, _ ...any) (*sql.Rows, error) {
	return tx.Tx.QueryContext(ctx, query)
}

// A transaction that drops arguments is refused with an error that names it and says what to pass instead.
func TestATransactionThatDropsArgumentsIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := create(t, db, letters)
	handle := db.SQL(t)
	for name, use := range map[string]func(context.Context, workqueue.Tx) error{
		"Insert": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := table.Insert(ctx, tx, letter("a"))
			return err
		},
		"Claim": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := table.In(tx).Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 1)
			return err
		},
		"Exec": func(ctx context.Context, tx workqueue.Tx) error {
			_, err := tx.Exec(ctx, "SELECT $1::int", 1)
			return err
		},
		"Query": func(ctx context.Context, tx workqueue.Tx) error {
			return tx.Query(ctx, nil, "SELECT $1::int", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := handle.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			err = use(t.Context(), workqueue.SQL(formattingTx{tx}))
			if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), "formattingTx") ||
				!strings.Contains(err.Error(), "bunTx.Tx") {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// A transaction that passes all arguments on is not blamed for a statement with the wrong number of parameters.
func TestAParameterThatIsMissingIsNotTheTransactions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tx, err := db.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = workqueue.SQL(tx).Exec(t.Context(), "SELECT $1::int + $2::int", 1)
	if err == nil || errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got the error %v", err)
	}
}
