package bench

import (
	"cmp"
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
	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/workqueue"
)

// A lab is where a workload is measured: a schema on a private server, or on the user's.
type lab struct {
	Options
	url     string
	schema  string
	session string          // application_name of the workload's sessions; the meter waits for their end
	server  *localpg.Server // nil on the user's server
	meter   *meterConn
	created bool // the schema was created
}

// serverSettings are those beside the ones of every benchmark. A worker and its scheduler use up to ten connections,
// and there may be MaxWorkers of them.
var serverSettings = map[string]string{"max_connections": "1000"}

// schemaPrefix starts the names of schemas, which are dropped at the end.
const schemaPrefix = "txwork_bench_"

func openLab(ctx context.Context, o Options) (*lab, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	name := schemaPrefix + strings.ToLower(rand.Text())
	l := &lab{Options: o, url: o.DatabaseURL, schema: name, session: name}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	return l, nil
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.url == "" {
		if l.server, err = measure.Start(ctx, serverSettings, ""); err != nil {
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

// cleanupLimit bounds the cleanup after an interruption, even if the server does not answer.
const cleanupLimit = 20 * time.Second

// aftermath returns a context for what has to happen even if ctx has ended.
func aftermath(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
}

// close removes everything that the lab created. A private server is deleted as a whole.
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

// drop drops the schema. It reports an error only if the schema had been created.
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

// serverDir is the directory of a private server; "" on the user's.
func (l *lab) serverDir() string {
	if l.server == nil {
		return ""
	}
	return l.server.Dir()
}

func (l *lab) telemetry() workqueue.Telemetry { return workqueue.Telemetry{Logger: l.Logger} }

// in returns the quoted name of a table in the lab's schema.
func (l *lab) in(table string) string { return pgx.Identifier{l.schema, table}.Sanitize() }
