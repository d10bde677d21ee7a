package jobs_test

import (
	"context"
	"crypto/rand"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/jobs"
)

// exampleDatabase opens a pool and creates a schema with the jobs' tables, for the examples.
func exampleDatabase() (pool *pgxpool.Pool, schema string, closePool func()) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(exampleServer())
	check(err)
	schema = "example_" + strings.ToLower(rand.Text())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(ctx, config)
	check(err)
	up, _, err := jobs.DDL(schema)
	check(err)
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema)
	check(err)
	_, err = pool.Exec(ctx, up)
	check(err)
	return pool, schema, func() {
		_, err := pool.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA "+schema+" CASCADE")
		check(err)
		pool.Close()
	}
}

// exampleServer starts a server for the examples, because that of package pgtest needs a *testing.T. It ends with the
// process.
var exampleServer = sync.OnceValue(func() string {
	if url := os.Getenv(localpg.DatabaseURLEnv); url != "" {
		return url
	}
	server, err := localpg.Start(context.Background(), localpg.Options{})
	check(err)
	return server.URL()
})

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
