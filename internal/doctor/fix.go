package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Fix runs the SQL of a finding that is fixable, one statement after the other, each in a transaction of its own. It
// waits for locks as long as a migration does and no longer, lest others wait behind it. What is built CONCURRENTLY
// keeps nobody from their work and takes the time that it takes: broken off it would leave an invalid index.
func Fix(ctx context.Context, pool *pgxpool.Pool, f Finding) error {
	if !f.Fixable {
		return fmt.Errorf("txwork: doctor: %s is not for --fix: %s", f.Code, f.Remedy.Do)
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
