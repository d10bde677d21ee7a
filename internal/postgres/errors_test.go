package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
)

// Behind a pooler that does not track prepared statements, some are not there, and some are there already.
func TestPreparedStatementsThatAPoolerLost(t *testing.T) {
	t.Parallel()
	mode := errors.New("mode")
	for _, code := range []string{"26000", "42P05"} {
		err := postgres.Sentinels{PoolMode: mode}.Explain(&pgconn.PgError{Code: code})
		if !errors.Is(err, mode) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec to the pool's URL") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
