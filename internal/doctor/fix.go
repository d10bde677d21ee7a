package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Fix runs the SQL of a fixable finding, one statement after the other, each in its own transaction. It waits for locks
// no longer than a migration does, because other sessions queue up behind it. A CONCURRENTLY statement has no time
// limit: it blocks nobody, and an interrupted one would leave an invalid index.
func Fix(ctx context.Context, pool *pgxpool.Pool, f Finding) error {
	if !f.Fixable {
		return fmt.Errorf("txwork: doctor: --fix cannot fix %s: %s", f.Code, f.Remedy.Do)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	defer conn.Exec(context.WithoutCancel(ctx), "RESET lock_timeout")
	for _, statement := range f.Remedy.SQL {
		timeout := "3s"
		if strings.Contains(statement, " CONCURRENTLY ") {
			timeout = "0"
		}
		if _, err := conn.Exec(ctx, "SET lock_timeout = '"+timeout+"'"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("txwork: doctor: %s: %w", oneLine(statement), err)
		}
	}
	return nil
}
