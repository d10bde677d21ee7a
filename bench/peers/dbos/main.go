// Command dbos is DBOS Transact for Go (github.com/dbos-inc/dbos-transact-golang) as a peer. A job is a workflow
// without steps on a queue.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

func describe(protocol.Config) protocol.Description {
	return protocol.Description{
		Name:          "DBOS Transact",
		Version:       peer.ModuleVersion("github.com/dbos-inc/dbos-transact-golang"),
		Profiles:      descriptions(),
		Retained:      true,
		UnfinishedSQL: "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	pool, err := peer.Pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	system, err := dbos.NewContext(ctx, config(pool)) // migrates
	if err != nil {
		return err
	}
	return dbos.Shutdown(system, shutdownLimit)
}

// Names in the database. All processes are one application, of one version.
const (
	application  = "bench"
	version      = "1"
	workflow     = "noop"
	defaultQueue = "jobs"
)

// shutdownLimit is how long each part of DBOS may take to stop.
const shutdownLimit = 30 * time.Second

// config returns the config of this process. Its executor has a new id, because a process that starts recovers the
// workflows that its id has begun, and with the default one these would be those of other processes. Without a key of
// the Conductor, DBOS connects to nothing but the database.
func config(pool *pgxpool.Pool) dbos.Config {
	return dbos.Config{
		AppName:            application,
		ApplicationVersion: version,
		ExecutorID:         uuid.NewString(),
		SystemDBPool:       pool,
		// The default logger writes to standard output, which is for events.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// session is a DBOS context. It only runs workflows while Work does.
type session struct {
	pool    *pgxpool.Pool
	system  dbos.Context
	options []dbos.QueueOption
	queues  *peer.Queues
}

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	profile, found := profiles[c.Profile]
	if !found {
		return nil, fmt.Errorf("there is no profile %q", c.Profile)
	}
	pool, err := peer.Pool(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &session{pool: pool, options: profile.options(c.Concurrency), queues: peer.NewQueues(c.Queues)}
	if c.Queues == 0 {
		s.queues.Names = []string{defaultQueue} // DBOS has none by itself
	}
	migrated := config(pool)
	migrated.SkipMigrations = true
	// It does not get the end of ctx, which would cancel running workflows for good.
	s.system, err = dbos.NewContext(context.WithoutCancel(ctx), migrated)
	return s, err
}

// enqueueMany calls DBOS's function for SQL for each job, because DBOS has no call in Go for several workflows. The one
// for a single workflow takes two round trips, and wrote at most half as many jobs a second in a transaction for all.
const enqueueMany = `SELECT count(dbos.enqueue_workflow(workflow_name => $1, queue_name => $2,
	positional_args => ARRAY[body], app_version => $3, application_name => $4)) FROM unnest($5::json[]) AS body`

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	_, err := s.pool.Exec(ctx, enqueueMany, workflow, s.queues.Next(), version, application, bodies)
	return err
}

func (s *session) InsertOne(_ context.Context, body protocol.Body) error {
	_, err := dbos.Enqueue[int](s.system, s.queues.Next(), workflow, body)
	return err
}

func (s *session) Work(ctx context.Context, handled func()) error {
	dbos.RegisterWorkflow(s.system, func(dbos.Context, protocol.Body) (int, error) {
		handled()
		return 0, nil
	}, dbos.WithWorkflowName(workflow))
	for _, name := range s.queues.Names {
		if _, err := dbos.RegisterQueue(s.system, name, s.options...); err != nil {
			return err
		}
	}
	if err := dbos.Launch(s.system); err != nil {
		return err
	}
	<-ctx.Done()
	return dbos.Shutdown(s.system, shutdownLimit)
}

func (s *session) Close() { s.pool.Close() }
