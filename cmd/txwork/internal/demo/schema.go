package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A schemaClaim is a schema on the user's server, held by an advisory lock of one session. The lock ends with the
// process, however the process ends, and so tells the next demo which schemas to drop.
type schemaClaim struct {
	conn   *pgx.Conn
	schema string
}

const (
	schemaPrefix  = "txwork_demo_"
	schemaComment = "a run of `txwork demo`: dropped at its end, or by the next run"
)

// claimSchema creates a schema with a unique name.
func claimSchema(ctx context.Context, pool *pgxpool.Pool) (*schemaClaim, error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	c := &schemaClaim{conn: conn, schema: schemaPrefix + strings.ToLower(rand.Text())}
	if err := c.create(ctx); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// create locks the name before the schema becomes visible to others.
func (c *schemaClaim) create(ctx context.Context) error {
	if err := c.clearAway(ctx); err != nil {
		return fmt.Errorf("dropping the schema of a demo that was killed: %w", err)
	}
	if _, err := c.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", c.schema); err != nil {
		return err
	}
	_, err := c.conn.Exec(ctx, fmt.Sprintf("CREATE SCHEMA %s; COMMENT ON SCHEMA %[1]s IS '%s'", c.schema,
		schemaComment))
	if err != nil {
		return fmt.Errorf("the demo makes a schema of its own, for which the role needs CREATE on the database: %w",
			err)
	}
	return nil
}

// clearAway drops schemas that this role owns and no demo holds. Both the name and the comment must be those of a demo.
func (c *schemaClaim) clearAway(ctx context.Context) error {
	rows, err := c.conn.Query(ctx, `SELECT nspname FROM pg_namespace
		WHERE nspname ~ $1 AND obj_description(oid, 'pg_namespace') = $2 AND pg_has_role(nspowner, 'USAGE')`,
		"^"+schemaPrefix+"[a-z2-7]{26}$", schemaComment)
	if err != nil {
		return err
	}
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, schema := range schemas {
		if err := c.dropAbandoned(ctx, schema); err != nil {
			return err
		}
	}
	return nil
}

func (c *schemaClaim) dropAbandoned(ctx context.Context, schema string) error {
	return pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		var abandoned bool
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", schema).Scan(&abandoned)
		if err != nil || !abandoned {
			return err
		}
		_, err = tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		return err
	})
}

// drop removes the schema when the workers' sessions have ended. Ending the session then releases the lock.
func (c *schemaClaim) drop(ctx context.Context) error {
	_, err := c.conn.Exec(ctx, "DROP SCHEMA "+c.schema+" CASCADE")
	if err != nil {
		err = fmt.Errorf("schema %s is left behind, the next demo drops it: %w", c.schema, err)
	}
	return errors.Join(err, c.conn.Close(ctx))
}
