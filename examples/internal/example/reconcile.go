package example

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A figure is a number that was counted, and the number that it should be.
type figure struct {
	What      string
	Got, Want int64
}

// Reconcile compares the figures that a query returns, as rows of a description, the actual and the expected number. It
// prints all of them, and returns an error if any differs.
func Reconcile(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) error {
	rows, _ := pool.Query(ctx, query, args...)
	figures, err := pgx.CollectRows(rows, pgx.RowToStructByPos[figure])
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range figures {
		verdict := "ok"
		if f.Got != f.Want {
			verdict = fmt.Sprintf("WRONG, it should be %d", f.Want)
			wrong++
		}
		fmt.Printf("  %-48s %8d  %s\n", f.What, f.Got, verdict)
	}
	if wrong > 0 || len(figures) == 0 {
		return fmt.Errorf("not reconciled: %d of %d figures are wrong", wrong, len(figures))
	}
	fmt.Printf("reconciled: %d figures agree\n", len(figures))
	return nil
}

// Count prints the rows of a query: a description and a number each.
func Count(ctx context.Context, pool *pgxpool.Pool, query string) error {
	var what string
	var n int64
	rows, _ := pool.Query(ctx, query)
	_, err := pgx.ForEachRow(rows, []any{&what, &n}, func() error {
		_, err := fmt.Printf("  %-48s %8d\n", what, n)
		return err
	})
	return err
}
