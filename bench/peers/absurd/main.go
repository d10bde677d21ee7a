// Command absurd is the peer Absurd: its stored procedures, called from one Go process as its SDKs call them, for tasks
// without steps. The environment variable BENCH_ABSURD_SQL names the file with its SQL.
package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
)

var source = peer.Foreign{Env: "BENCH_ABSURD_SQL"}

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

const queue = "bench"

func describe(protocol.Config) protocol.Description {
	return protocol.Description{
		Name: "Absurd", Version: source.Version(), Profiles: peer.Taking("claim_task and complete_run"), Retained: true,
		UnfinishedSQL: "SELECT count(*) FROM absurd.t_" + queue + " WHERE state <> 'completed'",
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	return source.Prepare(ctx, c, "SELECT absurd.create_queue('"+queue+"')")
}

type session struct {
	pool   *pgxpool.Pool
	config protocol.Config
}

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	pool, err := peer.Pool(ctx, c)
	return &session{pool: pool, config: c}, err
}

// InsertMany calls its function for each task, in one statement: there is none for many.
func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	params, err := peer.Encoded(bodies)
	if err != nil {
		return err
	}
	const spawn = "SELECT count(s.task_id) FROM unnest($2::jsonb[]) AS p, absurd.spawn_task($1, 'noop', p) AS s"
	var spawned int
	err = s.pool.QueryRow(ctx, spawn, queue, params).Scan(&spawned)
	return peer.All(spawned, len(bodies), err)
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	return s.InsertMany(ctx, []protocol.Body{body})
}

func (s *session) Work(ctx context.Context, handled func()) error {
	return peer.Clients(ctx, s.pool, s.config, func() peer.Take {
		worker := uuid.NewString()
		return func(ctx context.Context, conn *pgxpool.Conn, n int, handled func()) (int, error) {
			return take(ctx, conn, worker, n, handled)
		}
	}, handled)
}

// lease is that of a claim, in seconds.
const lease = 60

func take(ctx context.Context, conn *pgxpool.Conn, worker string, n int, handled func()) (int, error) {
	rows, err := conn.Query(ctx, "SELECT run_id, params::text FROM absurd.claim_task($1, $2, $3, $4)", queue, worker,
		lease, n)
	if err != nil {
		return 0, err
	}
	var ids []pgtype.UUID
	var id pgtype.UUID
	var params []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &params}, func() error {
		ids = append(ids, id)
		handled()
		return nil
	}); err != nil || len(ids) == 0 {
		return 0, err
	}
	const complete = "SELECT count(c) FROM unnest($2::uuid[]) AS r, absurd.complete_run($1, r) AS c"
	_, err = conn.Exec(ctx, complete, queue, ids) // an error unless each run is the worker's
	return len(ids), err
}

func (s *session) Close() { s.pool.Close() }
