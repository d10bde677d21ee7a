package outbox_test

import (
	"context"
	"crypto/rand"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/migrations"
)

// exampleDatabase returns what the examples need: a pool, and a schema with txwork's tables and two tables of an
// application.
func exampleDatabase() (pool *pgxpool.Pool, schema string, closePool func()) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(exampleServer())
	check(err)
	schema = "example_" + strings.ToLower(rand.Text())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(ctx, config)
	check(err)
	prepare(ctx, pool, schema)
	return pool, schema, func() {
		_, err := pool.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA "+schema+" CASCADE")
		check(err)
		pool.Close()
	}
}

// exampleServer returns the URL of the examples' server, which ends with the process. Package pgtest cannot start it,
// because it needs a *testing.T.
var exampleServer = sync.OnceValue(func() string {
	if url := os.Getenv(localpg.DatabaseURLEnv); url != "" {
		return url
	}
	server, err := localpg.Start(context.Background(), localpg.Options{})
	check(err)
	return server.URL()
})

func prepare(ctx context.Context, pool *pgxpool.Pool, schema string) {
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	_, err = m.Up(ctx)
	check(err)
	_, err = pool.Exec(ctx, `
		CREATE TABLE orders (id int PRIMARY KEY);
		CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL);
		INSERT INTO accounts VALUES ('alice', 0)`)
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
