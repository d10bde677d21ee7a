package conn

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
)

// OpenAs opens a connection as a pool does.
func OpenAs(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	config := pool.Config()
	return Open(ctx, config.ConnConfig, config.BeforeConnect)
}

// Open opens a connection after a call of before, which may be nil.
func Open(ctx context.Context, config *pgx.ConnConfig,
	before func(context.Context, *pgx.ConnConfig) error) (*pgx.Conn, error) {
	if before == nil {
		before = postgres.RereadPassword(config)
	}
	if before != nil {
		if err := before(ctx, config); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config)
}
