package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/database"
)

// rights are what a role may do where migrations run.
type rights struct {
	role           string
	exists         bool   // the schema
	onDatabase     bool   // CREATE
	onSchema       bool   // USAGE and CREATE
	foreign, owner string // an object of the schema that the role does not own, and whose it is; empty if there is none
}

// rightsQuery reads catalogues only, so that every role may run it.
const rightsQuery = `SELECT current_user::text, n.oid IS NOT NULL,
	has_database_privilege(current_database(), 'CREATE'),
	coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'), false),
	coalesce(o.name, ''), coalesce(pg_get_userbyid(o.owner)::text, '')
FROM (SELECT) AS one
LEFT JOIN pg_namespace AS n ON n.nspname = $1::text::name
LEFT JOIN LATERAL (
	SELECT 'table ' || c.oid::regclass AS name, c.relowner AS owner, 1 AS rank FROM pg_class AS c
	WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
	UNION ALL
	SELECT 'function ' || p.oid::regproc, p.proowner, 2 FROM pg_proc AS p WHERE p.pronamespace = n.oid
) AS o ON NOT pg_has_role(o.owner, 'USAGE')
ORDER BY o.rank, o.name LIMIT 1`

// explainRights adds to a refusal which right is missing. PostgreSQL's own message says so in the server's language,
// and its SQLSTATE is the same whether the role may not create anything or does not own what is to be changed.
func (m *Migrator) explainRights(ctx context.Context, db database.DBTxConn, err error) error {
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
		return err
	}
	var r rights
	if failed := db.QueryRowContext(ctx, rightsQuery, m.schema).Scan(&r.role, &r.exists, &r.onDatabase, &r.onSchema,
		&r.foreign, &r.owner); failed != nil {
		return err
	}
	if missing := r.missing(m.schema); missing != "" {
		return fmt.Errorf("%s: %w", missing, err)
	}
	return err
}

// readingQuery reads catalogues only, so that every role may run it. It returns a right that reading what a schema
// records needs, and the role lacks.
const readingQuery = `SELECT current_user::text, CASE
	WHEN NOT has_schema_privilege(n.oid, 'USAGE') THEN 'USAGE on schema ' || n.nspname
	ELSE (SELECT 'SELECT on table ' || c.oid::regclass FROM pg_class AS c
		WHERE c.relnamespace = n.oid AND c.relname IN ('schema_version', 'schema_domain')
			AND NOT has_table_privilege(c.oid, 'SELECT')
		ORDER BY c.relname DESC LIMIT 1)
	END
FROM pg_namespace AS n WHERE n.nspname = $1::text::name`

// explainReading adds to a refusal which right is missing.
func (m *Migrator) explainReading(ctx context.Context, err error) error {
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
		return err
	}
	var role string
	var missing *string
	if m.pool.QueryRow(ctx, readingQuery, m.schema).Scan(&role, &missing) != nil || missing == nil {
		return err
	}
	return fmt.Errorf("role %q needs %s: %w", role, *missing, err)
}

// missing says what the role lacks; empty if it has all that a migration needs.
func (r rights) missing(schema string) string {
	switch {
	case !r.exists && !r.onDatabase:
		return fmt.Sprintf("role %q needs CREATE on the database to make the schema", r.role)
	case r.exists && !r.onSchema:
		return fmt.Sprintf("role %q needs USAGE and CREATE on schema %s", r.role, schema)
	case r.foreign != "":
		return fmt.Sprintf("role %q does not own %s: migrate as %q, or GRANT %s TO %s", r.role, r.foreign, r.owner,
			pgx.Identifier{r.owner}.Sanitize(), pgx.Identifier{r.role}.Sanitize())
	}
	return ""
}
