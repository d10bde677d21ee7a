package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
)

func mode(pool *pgxpool.Pool) pgx.QueryExecMode { return pool.Config().ConnConfig.DefaultQueryExecMode }

func TestModeOfTheEnvironment(t *testing.T) {
	t.Setenv(pgtest.ExecModeEnv, "simple_protocol")
	db := pgtest.New(t)
	if got := mode(db.Pool); got != pgx.QueryExecModeSimpleProtocol {
		t.Errorf("got %v", got)
	}
	own := pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	})
	if got := mode(pgtest.NewPool(t, db, own)); got != pgx.QueryExecModeDescribeExec {
		t.Errorf("a test's own mode became %v", got)
	}
	direct := pgtest.Direct(t, db)
	if got := mode(direct); got != pgx.QueryExecModeCacheStatement {
		t.Errorf("past the environment: got %v", got)
	}
	var schema string
	if err := direct.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil || schema != db.Schema {
		t.Errorf("got the schema %q, %v", schema, err)
	}
}

// Settings that a pooler would refuse at the start of a session become settings of the role that the pool logs in as.
func TestPoolerOfTheEnvironment(t *testing.T) {
	t.Setenv(pgtest.PoolerEnv, "127.0.0.1:1")
	readOnly := pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	db := pgtest.New(t, readOnly)
	through := db.Pool.Config().ConnConfig
	if through.Host != "127.0.0.1" || through.Port != 1 || len(through.RuntimeParams) > 0 {
		t.Errorf("the pool connects to %s:%d with %v", through.Host, through.Port, through.RuntimeParams)
	}

	direct, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	user := direct.User
	direct.User = through.User
	conn, err := pgx.ConnectConfig(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for query, want := range map[string]string{
		"SELECT current_schema()":            db.Schema,
		"SELECT current_user":                user,
		"SHOW default_transaction_read_only": "on",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", query, got, err, want)
		}
	}
}
