package demo

import (
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// A worker that has lost all leases when the fault strikes it has no tokens, and holds nothing.
func TestNoTokensHoldNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Define(t, "CREATE TABLE outbox (owner_token uuid, status smallint); INSERT INTO outbox VALUES (NULL, 1)")
	f := &faults{bank: &bank{pool: db.Pool}, schema: db.Schema}
	if n, err := f.held(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("%d rows, error %v", n, err)
	}
}
