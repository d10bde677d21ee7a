package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A database is the schema that a command works on.
type database struct {
	operate.DB
	app *app
}

// connect opens the database that the flags or the environment name, and verifies that it answers.
func (a *app) connect(ctx context.Context) (*database, error) {
	return a.connectWith(ctx, func(*pgxpool.Config) {})
}

// withAnySession is withDatabase for what sets its own search_path, and does not rely on triggers.
func (a *app) withAnySession(ctx context.Context, do func(*database) error) error {
	d, err := a.connectWith(ctx, func(c *pgxpool.Config) { c.AfterConnect = nil })
	if err != nil {
		return err
	}
	defer d.close()
	return do(d)
}

// refuseSession refuses a session in which SQL does not mean what it says.
func refuseSession(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, postgres.SelectFit, pgx.QueryExecModeSimpleProtocol)
	return postgres.Sentinels{Session: workqueue.ErrSession}.Explain(err)
}

// url is that of the database, or empty.
func (a *app) url() string {
	if a.databaseURL != "" {
		return a.databaseURL
	}
	return a.getenv(databaseURLEnv)
}

// connectWith is connect, with a function that configures the pool.
func (a *app) connectWith(ctx context.Context, configure func(*pgxpool.Config)) (*database, error) {
	if err := a.checkSchema(); err != nil {
		return nil, err
	}
	url := a.url()
	if url == "" {
		return nil, usagef("no database: pass --database-url postgres://user@host/name or set %s", databaseURLEnv)
	}
	return a.connectTo(ctx, url, configure)
}

// connectTo is connectWith for a URL that may be another one than that of --database-url.
func (a *app) connectTo(ctx context.Context, url string, configure func(*pgxpool.Config)) (*database, error) {
	config, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if params := config.ConnConfig.RuntimeParams; params["application_name"] == "" {
		params["application_name"] = "txwork"
	}
	// The defaults of the database or the role may be others.
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "on"
	config.BeforeConnect = workqueue.RereadPassword(config.ConnConfig)
	config.AfterConnect = refuseSession
	configure(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, unreachable(ctx, err)
	}
	return &database{operate.DB{Pool: pool, Schema: a.schema, Actor: a.who()}, a}, nil
}

// who acts, and from where, as this machine says.
func (a *app) who() operate.Actor {
	who := operate.Actor{Who: a.actor, Origin: "txwork"}
	if who.Who == "" {
		if u, err := user.Current(); err == nil {
			who.Who = u.Username
		}
	}
	if host, err := os.Hostname(); err == nil {
		who.Origin += " on " + host
	}
	return who
}

// unreachable explains why the server did not accept a connection, and what to do about it.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, workqueue.ErrSession) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("the database cannot be reached: check the URL and that the server runs: %w", err)
	}
	switch pg.Code {
	case "53300": // too_many_connections
		return fmt.Errorf("the server has no free connection: close some, or raise max_connections or the role's "+
			"limit: %w", err)
	case "3D000": // invalid_catalog_name
		return fmt.Errorf("the server has no such database: check its name in the URL, or create it: %w", err)
	case "28000", "28P01": // invalid_authorization_specification, invalid_password
		return fmt.Errorf("the server refuses the role: check its name and password in the URL, and pg_hba.conf: %w",
			err)
	case "57P03": // cannot_connect_now
		return fmt.Errorf("the server is starting, stopping or recovering: try again: %w", err)
	}
	return fmt.Errorf("the server refuses the connection: %w", err)
}

// parseURL never quotes a URL that cannot be parsed, because the boundaries of its password are then unclear. An
// unescaped @ in the password ends it too early, and an error about an unknown host would show the rest of the
// password.
func parseURL(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		text := err.Error()
		if quoted := strings.LastIndex(text, "`: "); quoted >= 0 {
			text = text[quoted+len("`: "):]
		}
		return nil, usagef("the database URL is wrong: %s", text)
	}
	if host := config.ConnConfig.Host; strings.Contains(host, "@") && !strings.HasPrefix(host, "/") {
		return nil, usagef("the database URL is wrong: its host has an @: write that of a password as %%40")
	}
	return config, nil
}

func (a *app) checkSchema() error {
	if err := validate.Identifier("schema", a.schema); err != nil {
		return usageError{err}
	}
	return nil
}

func (d *database) close() { d.Pool.Close() }

// withDatabase connects, calls do and disconnects.
func (a *app) withDatabase(ctx context.Context, do func(*database) error) error {
	d, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	return do(d)
}

// withTable connects, looks up a table, calls do and disconnects.
func (a *app) withTable(ctx context.Context, name string, do func(*database, *workqueue.Table) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		t, err := d.table(ctx, name)
		if err != nil {
			return err
		}
		return d.looking(ctx, func() error { return do(d, t) }, t)
	})
}

// tables opens the named tables, or all tables if no name is given.
func (d *database) tables(ctx context.Context, names ...string) ([]*workqueue.Table, error) {
	names, err := d.find(ctx, names...)
	if err != nil {
		return nil, err
	}
	tables := make([]*workqueue.Table, len(names))
	for i, name := range names {
		if tables[i], err = workqueue.Open(specOf(d.Schema, name), d.app.telemetry()); err != nil {
			return nil, err
		}
		if err := tables[i].CheckVersion(ctx, d.Pool); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// names are those of tables whose version fits, see tables.
func (d *database) names(ctx context.Context, names ...string) ([]string, error) {
	tables, err := d.tables(ctx, names...)
	found := make([]string, len(tables))
	for i, t := range tables {
		found[i] = t.Spec().Table
	}
	return found, err
}

// find returns the names of tables, without the schema: of those that are named, or of all if no name is given.
func (d *database) find(ctx context.Context, names ...string) ([]string, error) {
	known, err := d.TableNames(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(known) == 0:
		return nil, noTables(d.Schema)
	case len(names) == 0:
		return known, nil
	}
	found := make([]string, len(names))
	for i, name := range names {
		if found[i], err = d.known(known, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func noTables(schema string) error {
	return fmt.Errorf("schema %s has no txwork tables: run %s, or name another --schema", schema,
		postgres.Command(schema, "migrate", "up"))
}

func (d *database) table(ctx context.Context, name string) (*workqueue.Table, error) {
	tables, err := d.tables(ctx, name)
	if err != nil {
		return nil, err
	}
	return tables[0], nil
}

// known returns the name of a table of those that there are. It also accepts the qualified name, since that is how
// messages show it.
func (d *database) known(all []string, name string) (string, error) {
	name = strings.TrimPrefix(name, d.Schema+".")
	if isLog(d.Schema, name) && slices.Contains(all, name+"_parked") {
		return "", d.noRows()
	}
	if !slices.Contains(all, name) {
		return "", fmt.Errorf("there is no txwork table %q in schema %s: it has %s", name, d.Schema,
			strings.Join(all, ", "))
	}
	return name, nil
}

// mayClaim checks the privileges before a worker starts. The worker would take a missing privilege for a temporary
// error and retry forever.
func (d *database) mayClaim(ctx context.Context, t *workqueue.Table) error {
	var may bool
	name := pgx.Identifier{d.Schema, t.Spec().Table}.Sanitize()
	err := d.Pool.QueryRow(ctx, "SELECT has_column_privilege($1, 'owner_token', 'UPDATE')", name).Scan(&may)
	if err != nil || may {
		return err
	}
	var g postgres.Grantee
	err = d.Pool.QueryRow(ctx, postgres.SelectGrantee, "worker", d.Schema).Scan(g.Fields()...)
	if err != nil {
		return err
	}
	return fmt.Errorf("role %q may not claim from %s: %s", g.Role, name, g.Grant("worker", d.Schema))
}

// readTx is [operate.DB.Read] for code that reads through the library.
func (d *database) readTx(ctx context.Context, do func(tx workqueue.Tx, now time.Time) error) error {
	return d.Read(ctx, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return err
		}
		return do(workqueue.Pgx(tx), now)
	})
}

// conclude marks errors that the command line caused as usage errors, and explains the others.
func conclude(err error) error {
	if errors.Is(err, workqueue.ErrInvalid) {
		return usageError{err}
	}
	return explain(err)
}

// refusedFlag marks what the command line asks of a table that cannot answer it as a usage error.
func refusedFlag(err error) error {
	var r operate.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Field == "":
		return usageError{r}
	}
	return usagef("--%w", r)
}

// explain adds what to do to database errors that have a known remedy, and to refusals which flag they are about.
func explain(err error) error {
	if errors.As(err, new(operate.Refusal)) {
		return refusedFlag(err)
	}
	if errors.As(err, new(operate.AuditError)) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || errors.Is(err, workqueue.ErrReadOnly) || errors.Is(err, workqueue.ErrSchemaVersion) ||
		errors.Is(err, workqueue.ErrPoolMode) {
		return err
	}
	switch pg.Code {
	case "42501": // insufficient_privilege
		return fmt.Errorf("the role lacks a privilege: connect as the tables' owner, or grant it a role of txwork roles: %w",
			err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("the database is read-only: connect to the primary: %w", err)
	case "42P01", "42883", "3F000", // undefined table, function, schema
		"26000", "42P05": // prepared statements that a pooler has lost
		return postgres.Sentinels{SchemaVersion: workqueue.ErrSchemaVersion,
			PoolMode: workqueue.ErrPoolMode}.Explain(err)
	}
	return err
}
