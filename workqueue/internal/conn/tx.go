package conn

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Tx is a transaction of a connection of a pool. BEGIN is sent with the first statement, so that a transaction of one
// statement takes two round trips and not three, and one that sends nothing takes none.
type Tx struct {
	conn  *pgx.Conn
	begun bool
	ended bool // the connection has gone back to the pool
}

// NewTx returns a transaction that begins with its first statement. End must follow.
func NewTx(conn *pgx.Conn) *Tx { return &Tx{conn: conn} }

// End ends the transaction for the given reason, if it has not been committed. Its connection goes back to the pool.
func (t *Tx) End(cause error) {
	t.ended = true
	leaveClean(t.conn, cause)
}

func (t *Tx) Conn() *pgx.Conn { return t.conn }

func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := t.begin(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	if results == nil {
		return t.conn.Exec(ctx, sql, args...)
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return tag, err
}

func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := t.begin(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	if results == nil {
		return t.conn.Query(ctx, sql, args...)
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return firstRows{rows, results}, nil
}

// begin begins the transaction unless it has begun. A statement with arguments is sent along, and its reply is the next
// of the results. A text without arguments may hold several statements, which only the simple protocol takes. If begin
// returns no results, the caller still has to send the statement.
func (t *Tx) begin(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	switch {
	case t.ended:
		return nil, pgx.ErrTxClosed
	case t.begun:
		return nil, nil
	}
	if len(args) == 0 {
		_, err := t.conn.Exec(ctx, BeginReadWrite)
		t.begun = err == nil
		return nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(BeginReadWrite)
	batch.Queue(sql, args...)
	results := t.conn.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		_ = results.Close()
		return nil, err
	}
	t.begun = true
	return results, nil
}

// Commit commits the transaction if it has begun. The server answers the COMMIT of a failed transaction with ROLLBACK
// and no error.
func (t *Tx) Commit(ctx context.Context) error {
	if !t.begun {
		return nil
	}
	tag, err := t.conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// firstRows are the rows of a statement that was sent along with BEGIN.
type firstRows struct {
	pgx.Rows
	results pgx.BatchResults
}

func (r firstRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}
