package survey_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/survey"
)

// A process that stands still between two statements keeps its transaction for as long as a statement may take.
func TestATransactionMayBeIdleForAsLongAsAStatementTakes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for limit, want := range map[time.Duration]string{time.Second: "5s", time.Minute: "1min"} {
		var got string
		err := survey.Reader{From: db.Pool, Limit: limit}.Read(t.Context(), func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("with a limit of %v a transaction may be idle for %s, %v, want %s", limit, got, err, want)
		}
	}
}
