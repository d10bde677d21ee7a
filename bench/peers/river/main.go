// Command river is River (github.com/riverqueue/river) as a peer.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

func describe(protocol.Config) protocol.Description {
	return protocol.Description{
		Name:          "River",
		Version:       peer.ModuleVersion("github.com/riverqueue/river"),
		Profiles:      descriptions(),
		Retained:      true,
		UnfinishedSQL: "SELECT count(*) FROM river_job WHERE state <> 'completed'",
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	pool, err := peer.Pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// quiet discards logs, because River writes them to standard output, which is for events.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// noop is the job.
type noop struct{ protocol.Body }

// Kind implements [river.JobArgs].
func (noop) Kind() string { return "noop" }

// session is a client. Its worker calls handled, which Work sets before the client starts.
type session struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	handled func()
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
	s := &session{pool: pool, handled: func() {}, queues: peer.NewQueues(c.Queues)}
	s.client, err = river.NewClient(riverpgxv5.New(pool), profile.config(c.Concurrency, s))
	return s, err
}

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	params := make([]river.InsertManyParams, len(bodies))
	for i, b := range bodies {
		params[i].Args = noop{b}
	}
	_, err := s.client.InsertManyFast(ctx, params)
	return err
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	_, err := s.client.Insert(ctx, noop{body}, s.into())
	return err
}

// into returns options with the queue whose turn it is.
func (s *session) into() *river.InsertOpts {
	if name := s.queues.Next(); name != "" {
		return &river.InsertOpts{Queue: name}
	}
	return nil
}

func (s *session) Work(ctx context.Context, handled func()) error {
	s.handled = handled
	// The client does not get ctx, because its end would cancel running jobs, which Stop lets finish.
	if err := s.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return s.client.Stop(context.WithoutCancel(ctx))
}

func (s *session) Close() { s.pool.Close() }
