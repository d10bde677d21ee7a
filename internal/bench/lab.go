package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/workqueue"
)

// A lab is where one workload is measured: a schema on a private server, or on the user's.
type lab struct {
	Options
	url     string
	schema  string
	session string          // application_name of the workload's sessions, of which the meter waits for the end
	server  *localpg.Server // nil on the user's
	meter   *meterConn
	created bool // the schema
}

// serverSettings are those of a small server, so that figures do not show checkpoints of a toy. A worker and its
// scheduler have up to ten connections of their own, and there may be MaxWorkers.
var serverSettings = map[string]string{"max_wal_size": "4GB", "shared_buffers": "512MB", "max_connections": "1000"}

// schemaPrefix begins the names of schemas that are dropped at the end.
const schemaPrefix = "txwork_bench_"

func openLab(ctx context.Context, o Options) (*lab, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	name := schemaPrefix + strings.ToLower(rand.Text())
	l := &lab{Options: o, url: o.DatabaseURL, schema: name, session: name}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	return l, nil
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.url == "" {
		if l.server, err = localpg.Start(ctx, localpg.Options{Durable: true, Settings: serverSettings}); err != nil {
			return err
		}
		l.url = l.server.URL()
	}
	if l.meter, err = newMeterConn(l.url); err != nil {
		return fmt.Errorf("the database URL is wrong: %w", err)
	}
	if err := l.meter.connect(ctx); err != nil {
		return fmt.Errorf("the database cannot be reached: %w", err)
	}
	if err := l.meter.exec(ctx, "CREATE SCHEMA "+l.schema); err != nil {
		return fmt.Errorf("no schema can be made for the bench, which needs CREATE on the database: %w", err)
	}
	l.created = true
	return nil
}

// cleanupLimit bounds what happens after an interruption, whatever the server does.
const cleanupLimit = 20 * time.Second

// aftermath is a context for what has to happen also when ctx has ended.
func aftermath(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
}

// close leaves nothing behind. A private server goes with all that is on it.
func (l *lab) close(ctx context.Context) error {
	ctx, cancel := aftermath(ctx)
	defer cancel()
	var errs []error
	if l.meter != nil {
		if l.server == nil {
			errs = append(errs, l.drop(ctx))
		}
		errs = append(errs, l.meter.close(ctx))
	}
	if l.server != nil {
		errs = append(errs, l.server.Stop())
	}
	return errors.Join(errs...)
}

// drop says nothing of a schema that was not made.
func (l *lab) drop(ctx context.Context) error {
	err := l.meter.exec(ctx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+l.schema+" CASCADE")
	if err != nil && l.created {
		return fmt.Errorf("schema %s is left behind: %w", l.schema, err)
	}
	return nil
}

// pool opens connections for the workload. Close it before the counters are read.
func (l *lab) pool(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(connections), 0, 0
	config.ConnConfig.RuntimeParams["application_name"] = l.session
	return pgxpool.NewWithConfig(ctx, config)
}

// prepare runs the statements that make a table.
func (l *lab) prepare(ctx context.Context, up, _ string, err error) error {
	if err != nil {
		return err
	}
	return l.meter.exec(ctx, up)
}

func (l *lab) telemetry() workqueue.Telemetry { return workqueue.Telemetry{Logger: l.Logger} }

// in is a table's name for statements.
func (l *lab) in(table string) string { return pgx.Identifier{l.schema, table}.Sanitize() }
