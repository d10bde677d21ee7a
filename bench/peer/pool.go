package peer

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/protocol"
)

// Pool opens a pool of the config's number of connections.
func Pool(ctx context.Context, c protocol.Config) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(max(1, c.Connections))
	return pgxpool.NewWithConfig(ctx, config)
}

// Exec runs statements without parameters.
func Exec(ctx context.Context, c protocol.Config, statements string) error {
	pool, err := Pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, statements)
	return err
}
