package sqlcrew

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A session is a connection that is made anew after it was lost. It must be used by one goroutine at a time.
type session struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
}

const (
	callLimit  = 10 * time.Second // of a statement, on a network that may have become a black hole
	closeLimit = 100 * time.Millisecond
)

// use calls do with a connection, and drops the connection after every error but one of the statement.
func (s *session) use(ctx context.Context, do func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if s.conn == nil || s.conn.IsClosed() {
		if s.conn, err = pgx.ConnectConfig(ctx, s.config.Copy()); err != nil {
			s.conn = nil
			return err
		}
	}
	err = do(ctx, s.conn)
	if err != nil && refusal(err) == nil {
		s.close()
	}
	return err
}

// refusal is the server's error for a statement, after which the session goes on, and nil for all others.
func refusal(err error) *pgconn.PgError {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Severity == "ERROR" {
		return e
	}
	return nil
}

// commit calls do in a transaction.
func (s *session) commit(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return do(ctx, tx)
		})
	})
}

// query is one statement, by itself or in a transaction: clients do both.
func (s *session) query(ctx context.Context, inTx bool, sql string, args []any, read func(pgx.Rows) error) error {
	all := func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	if inTx || rand.IntN(2) == 0 {
		return s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error { return all(tx.Query(ctx, sql, args...)) })
	}
	return s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error { return all(conn.Query(ctx, sql, args...)) })
}

func (s *session) close() {
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		_ = s.conn.Close(ctx)
		s.conn = nil
	}
}
