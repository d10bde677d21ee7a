package timers_test

import (
	"context"
	"crypto/rand"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/timers"
)

// exampleDatabase returns what the examples need: a pool, and a schema with the tables of timers and a table of an
// application.
func exampleDatabase() (pool *pgxpool.Pool, schema string, closePool func()) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(exampleServer())
	check(err)
	schema = "example_" + strings.ToLower(rand.Text())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(ctx, config)
	check(err)
	up, _, err := timers.DDL(schema)
	check(err)
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema+"; "+up+
		"; CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL)")
	check(err)
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
