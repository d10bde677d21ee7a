package workqueue_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A claim that a test has made itself has no transaction, and says so.
func TestAClaimOfNoWorker(t *testing.T) {
	t.Parallel()
	var claim workqueue.Claim[struct{}]
	err := claim.Tx(t.Context(), func(pgx.Tx) error { return nil })
	_, batchErr := workqueue.BatchTx(context.Background(), []*workqueue.Claim[struct{}]{&claim},
		func(pgx.Tx) ([]error, error) { return nil, nil })
	if err == nil || batchErr == nil {
		t.Errorf("got %v and %v, want errors", err, batchErr)
	}
}
