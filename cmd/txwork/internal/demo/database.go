package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/migrations"
)

// A database is where one run takes place: a private server, or a schema on the user's server.
type database struct {
	url    string
	schema string
	pool   *pgxpool.Pool
	server *localpg.Server // nil on the user's server
	claim  *schemaClaim    // nil on a private server
}

// applicationName distinguishes the demo's sessions from others in pg_stat_activity.
const applicationName = "txwork demo"

// privateSchema differs from the default schema, so that the demo shows that nothing depends on the default.
const privateSchema = "txwork_demo"

// openDatabase returns a schema with txwork's tables.
func openDatabase(ctx context.Context, url string) (*database, error) {
	d := &database{url: url, schema: privateSchema}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
}

func (d *database) open(ctx context.Context) (err error) {
	if d.url == "" {
		if d.server, err = localpg.Start(ctx, localpg.Options{}); err != nil {
			return err
		}
		d.url = d.server.URL()
	}
	if d.pool, err = connect(ctx, d.url, parentConnections); err != nil {
		return err
	}
	if d.server == nil {
		if d.claim, err = claimSchema(ctx, d.pool); err != nil {
			return err
		}
		d.schema = d.claim.schema
	}
	return d.migrate(ctx)
}

// connect opens a pool and verifies that the server answers.
func connect(ctx context.Context, url string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(connections), 0, 0
	config.ConnConfig.RuntimeParams["application_name"] = applicationName
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the database does not answer: %w", err)
	}
	return pool, nil
}

func (d *database) migrate(ctx context.Context) error {
	m, err := migrations.New(d.pool, migrations.Options{Schema: d.schema, Logger: quiet(os.Stderr)})
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

// cleanupLimit bounds the cleanup after the end, so that Ctrl-C ends the demo even if the server does not answer.
const cleanupLimit = 20 * time.Second

// close removes everything that the demo created, even if ctx has ended.
func (d *database) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	var errs []error
	if d.claim != nil {
		errs = append(errs, d.claim.drop(ctx))
	}
	if d.pool != nil {
		d.pool.Close()
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	return errors.Join(errs...)
}
