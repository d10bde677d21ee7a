// Command pgmq is the peer pgmq: its SQL functions, called from one Go process. The environment variable BENCH_PGMQ_SQL
// names the file with its SQL.
package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
)

var source = peer.Foreign{Env: "BENCH_PGMQ_SQL"}

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

const queue = "bench"

func describe(c protocol.Config) protocol.Description {
	calls := "read and archive"
	if c.Deleted {
		calls = "read and delete"
	}
	return protocol.Description{
		Name: "pgmq", Version: source.Version(), Profiles: peer.Taking(calls), Retained: true, Deleted: true,
		UnfinishedSQL: "SELECT count(*) FROM pgmq.q_" + queue,
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	return source.Prepare(ctx, c, "SELECT pgmq.create('"+queue+"')")
}

type session struct {
	pool   *pgxpool.Pool
	config protocol.Config
	settle string
}

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	pool, err := peer.Pool(ctx, c)
	s := &session{pool: pool, config: c, settle: "SELECT count(*) FROM pgmq.archive($1, $2::bigint[])"}
	if c.Deleted {
		s.settle = "SELECT count(*) FROM pgmq.delete($1, $2::bigint[])"
	}
	return s, err
}

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	messages, err := peer.Encoded(bodies)
	if err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, "SELECT pgmq.send_batch($1, $2::jsonb[])", queue, messages)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return err
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	message, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var id int64
	return s.pool.QueryRow(ctx, "SELECT pgmq.send($1, $2::jsonb)", queue, json.RawMessage(message)).Scan(&id)
}

func (s *session) Work(ctx context.Context, handled func()) error {
	return peer.Clients(ctx, s.pool, s.config, func() peer.Take { return s.take }, handled)
}

// visibility is how long a message is not given to another client, in seconds.
const visibility = 60

func (s *session) take(ctx context.Context, conn *pgxpool.Conn, n int, handled func()) (int, error) {
	rows, err := conn.Query(ctx, "SELECT msg_id, message::text FROM pgmq.read($1, $2, $3)", queue, visibility, n)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var id int64
	var message []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &message}, func() error {
		ids = append(ids, id)
		handled()
		return nil
	}); err != nil || len(ids) == 0 {
		return 0, err
	}
	var settled int
	err = conn.QueryRow(ctx, s.settle, queue, ids).Scan(&settled)
	return len(ids), peer.All(settled, len(ids), err)
}

func (s *session) Close() { s.pool.Close() }
