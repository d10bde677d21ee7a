package conn

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
)

// RunLast runs the last calls of a transaction of ours, in one round trip. Its settings need not be restored, because
// it then only commits.
func RunLast(ctx context.Context, tx pgx.Tx, calls []Call) error {
	encode, err := PgxEncoder(tx.Conn(), true)
	if err != nil {
		return err
	}
	sets := []string{PinSets, idleSet}
	if readsText(tx.Conn()) {
		sets = append(sets, Each(textSettings, SetLocal))
	}
	bounds, args := boundSets(ctx, tx.Conn(), false)
	batch := &pgx.Batch{}
	batch.Queue("SELECT "+strings.Join(append(sets, bounds...), ", ")+" WHERE "+postgres.RunsTriggers, args...)
	for _, c := range calls {
		batch.Queue(c.Text, EncodeAll(c.Arguments(), encode)...)
	}
	results := tx.SendBatch(ctx, batch)
	_, err = results.Exec()
	for i := 0; err == nil && i < len(calls); i++ {
		err = readCall(results, calls[i])
	}
	return errors.Join(err, results.Close())
}
