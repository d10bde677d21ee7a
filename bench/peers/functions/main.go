// Command functions is txwork by its SQL functions: messages of the outbox, or of a table whose done rows are deleted.
// It takes and settles as the peers do that are SQL functions, and nothing of the library runs but what creates the
// tables.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

// deleted is a table for messages that are deleted when they are done.
var deleted = workqueue.Spec{
	Table: "messages",
	Columns: workqueue.ColumnsOf(func(r *message, c *workqueue.Columns) {
		c.Field(workqueue.Column{Name: "topic", Type: "text", NotNull: true}, &r.topic)
		c.Field(workqueue.Column{Name: "payload", Type: "bytea", NotNull: true}, &r.payload)
	}),
	DeleteDone: true,
}

type message struct {
	topic   string
	payload []byte
}

const topic = "bench"

func table(c protocol.Config) string {
	if c.Deleted {
		return workqueue.DefaultSchema + "." + deleted.Table
	}
	return workqueue.DefaultSchema + ".outbox"
}

func describe(c protocol.Config) protocol.Description {
	return protocol.Description{
		Name: "txwork's functions", Version: "devel", // the runner names the commit
		Profiles: peer.Taking(table(c) + "_fetch and _ack"), Retained: true, Deleted: true,
		// each part can use an index and does not read done messages
		UnfinishedSQL: "SELECT count(*) FROM " + table(c) + " WHERE completed_at IS NULL AND NOT waiting OR completed_at " +
			"IS NULL AND waiting OR failed_at IS NOT NULL",
	}
}

func prepare(ctx context.Context, c protocol.Config) error {
	ddl := func() (string, string, error) { return outbox.DDL("") }
	if c.Deleted {
		ddl = deleted.DDL
	}
	up, _, err := ddl()
	if err != nil {
		return err
	}
	return peer.Exec(ctx, c, "CREATE SCHEMA "+workqueue.DefaultSchema+";\n"+up)
}

type session struct {
	pool                            *pgxpool.Pool
	config                          protocol.Config
	enqueue, enqueueOne, fetch, ack string
}

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	pool, err := peer.Pool(ctx, c)
	t := table(c)
	return &session{
		pool: pool, config: c,
		enqueue:    "SELECT id, duplicate FROM " + t + "_enqueue_many($1)",
		enqueueOne: "SELECT id, duplicate FROM " + t + "_enqueue($1, $2::jsonb)",
		fetch: "SELECT entry, id, convert_from(payload, 'UTF8'), cursor FROM " + t +
			"_fetch($1, '1 minute', $2, cursor => $3)",
		ack: "SELECT count(*) FILTER (WHERE result = 'done') FROM " + t + "_ack($1, $2)",
	}, err
}

// A row is an element of enqueue_many.
type row struct {
	Topic   string        `json:"topic"`
	Payload protocol.Body `json:"payload"`
}

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	messages := make([]row, len(bodies))
	for i, b := range bodies {
		messages[i] = row{topic, b}
	}
	text, err := json.Marshal(messages)
	if err != nil {
		return err
	}
	return s.write(ctx, s.enqueue, json.RawMessage(text))
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.write(ctx, s.enqueueOne, topic, json.RawMessage(payload))
}

// write runs a function and reads its answers.
func (s *session) write(ctx context.Context, sql string, args ...any) error {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var id pgtype.UUID
	var duplicate bool
	_, err = pgx.ForEachRow(rows, []any{&id, &duplicate}, func() error { return nil })
	return err
}

func (s *session) Work(ctx context.Context, handled func()) error {
	return peer.Clients(ctx, s.pool, s.config, func() peer.Take {
		client := &client{session: s}
		_, _ = rand.Read(client.process[:]) // never fails
		return client.take
	}, handled)
}

// A client keeps the cursor of its last fetch.
type client struct {
	*session
	process [6]byte
	cursor  *string
}

// token makes a new owner token as docs/sql.md describes it.
func (c *client) token() (token pgtype.UUID) {
	_, _ = rand.Read(token.Bytes[:])
	copy(token.Bytes[:], c.process[:])
	token.Bytes[6] = token.Bytes[6]&0x0f | 0x80
	token.Bytes[8] = token.Bytes[8]&0x3f | 0x80
	token.Valid = true
	return token
}

func (c *client) take(ctx context.Context, conn *pgxpool.Conn, n int, handled func()) (int, error) {
	token := c.token()
	rows, err := conn.Query(ctx, c.fetch, token, n, c.cursor)
	if err != nil {
		return 0, err
	}
	var ids []pgtype.UUID
	var entry string
	var id pgtype.UUID
	var payload []byte
	var cursor *string
	if _, err := pgx.ForEachRow(rows, []any{&entry, &id, &payload, &cursor}, func() error {
		if entry == "end" {
			c.cursor = cursor
			return nil
		}
		ids = append(ids, id)
		handled()
		return nil
	}); err != nil || len(ids) == 0 {
		return 0, err
	}
	var done int
	err = conn.QueryRow(ctx, c.ack, token, ids).Scan(&done)
	return len(ids), peer.All(done, len(ids), err)
}

func (s *session) Close() { s.pool.Close() }
