// Package database provides the examples with a database: the one that TXWORK_DATABASE_URL names, or else a temporary
// PostgreSQL server, which is deleted when the program ends. A real application has its own database.
package database

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
)

// Open connects to the database. Call close to close the pool and stop the server that Open has started, if any.
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
