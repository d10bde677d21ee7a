//go:build unix

package torture

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaPrefix starts the names of the schemas that runs create.
const schemaPrefix = "txwork_torture_"

// claimSchema marks a schema as in use for as long as the session lives, however its run ends.
func claimSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", schema)
	return err
}

// clearSchemas drops schemas of runs that were killed. No session marks them as in use.
func clearSchemas(ctx context.Context, pool *pgxpool.Pool, prefix string) (cleared []string, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1) ORDER BY nspname",
		prefix)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		dropped, dropErr := clearSchema(ctx, conn.Conn(), name)
		if dropErr != nil {
			return cleared, dropErr
		}
		if dropped {
			cleared = append(cleared, name)
		}
	}
	return cleared, err
}

func clearSchema(ctx context.Context, conn *pgx.Conn, name string) (dropped bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", name).Scan(&dropped)
		if err == nil && dropped {
			_, err = tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
		}
		return err
	})
	return dropped, err
}

// guardSchema removes what dead runs have left on the user's server, and marks the schema that this run is about to
// create.
func (l *lab) guardSchema(ctx context.Context) error {
	if l.options.DatabaseURL == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	l.mark = conn
	if err := claimSchema(ctx, conn, l.schema); err != nil {
		return err
	}
	left, err := clearSchemas(ctx, l.admin, schemaPrefix)
	for _, name := range left {
		l.say("dropped the schema %s, which a run had left behind", name)
	}
	return err
}
