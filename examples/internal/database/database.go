// Package database gives the examples a database: the one that TXWORK_DATABASE_URL names, or a private
// PostgreSQL that is gone when the program ends. A real application has its own.
package database

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
)

// Open connects; close ends what it started.
func Open(ctx context.Context) (pool *pgxpool.Pool, close func(), err error) {
	url := os.Getenv(localpg.DatabaseURLEnv)
	stop := func() error { return nil }
	if url == "" {
		server, err := localpg.Start(ctx, localpg.Options{})
		if err != nil {
			return nil, nil, err
		}
		url, stop = server.URL(), server.Stop
	}
	pool, err = pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	return pool, func() { pool.Close(); stop() }, nil
}
