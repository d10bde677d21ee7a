package conn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// maxConflictRetries bounds how often a transaction that lost a conflict is run again.
const maxConflictRetries = 5

// A Pool runs calls in a transaction of their own, in one round trip. It begins the transaction as READ
// COMMITTED, whatever the session's default, because the guards rely on it. It begins it as READ WRITE, so that a
// role's default_transaction_read_only is not mistaken for a standby. In a session that keeps our settings, see
// [KeepSettings], it needs neither, nor BEGIN and COMMIT: statements that are sent in one piece are one transaction.
// Only calls that may change nothing still begin as READ WRITE, because they would not notice otherwise that their
// server has become a standby.
type Pool struct {
	Conns  *pgxpool.Pool
	Limits Limits // zero: a statement takes as long as it takes
	Slots  Taker  // of a runtime's connections; zero: the connections need no slots

	careful bool // the database has refused a note, see repertoireOf
}

// BeginReadWrite begins a transaction as a Pool does.
const BeginReadWrite = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// Run runs the calls, and runs them again where that may succeed.
func (p Pool) Run(ctx context.Context, calls []Call) error {
	for attempt := 1; ; attempt++ {
		for _, c := range calls {
			if c.Reset != nil {
				c.Reset()
			}
		}
		err := p.once(ctx, calls)
		if fault.IsUntranslatable(err) && !p.careful {
			p.careful = true
			continue
		}
		if err == nil || attempt > maxConflictRetries || !fault.IsConflict(err) && !mayRetake(err, calls) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt) * 5 * time.Millisecond):
		}
	}
}

// once sends everything at once and reads every reply, that of COMMIT last. Rows reach a client before their
// transaction has committed, and must not be used earlier.
func (p Pool) once(ctx context.Context, calls []Call) error {
	slot, err := p.Slots.Take(ctx)
	if err != nil {
		return err
	}
	defer slot.Release()
	conn, err := p.Conns.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()

	err = p.send(ctx, conn.Conn(), calls)
	if err != nil {
		leaveClean(conn.Conn(), err)
	}
	return err
}

func (p Pool) send(ctx context.Context, conn *pgx.Conn, calls []Call) error {
	encode, err := PgxEncoder(conn, p.careful)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	own := 0 // statements that are no call
	queue := func(text string, args ...any) { batch.Queue(text, args...); own++ }
	begins := !keepsSettings(conn) || !slices.ContainsFunc(calls, func(c Call) bool { return c.Writes })
	if begins {
		queue(beginFor(calls))
	}
	if text, args := p.settings(ctx, conn, calls); text != "" {
		queue(text, args...)
	}
	for _, c := range calls {
		batch.Queue(c.Text, EncodeAll(c.Arguments(), encode)...)
	}
	if begins {
		batch.Queue("COMMIT")
	}
	return readTransaction(conn.SendBatch(ctx, batch), own, calls)
}

// readTransaction reads the replies to the given number of preparing statements, and to the calls.
func readTransaction(results pgx.BatchResults, own int, calls []Call) (err error) {
	defer func() { // Close reads the reply to COMMIT, or to the end of what was sent at once
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}()
	for range own {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, c := range calls {
		if err := readCall(results, c); err != nil {
			return err
		}
	}
	return nil
}

func readCall(results pgx.BatchResults, c Call) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	return EachPgxRow(rows, c.Row)
}

// beginFor returns the BEGIN of the calls' transaction. Calls that only read may run on a standby, which refuses READ
// WRITE.
func beginFor(calls []Call) string {
	if slices.ContainsFunc(calls, func(c Call) bool { return !c.Reads }) {
		return BeginReadWrite
	}
	return "BEGIN ISOLATION LEVEL READ COMMITTED"
}

// settings returns the statement that sets what the transaction needs beside the settings that its session keeps; text
// is empty if that is nothing. The commit does not wait for the disk if every call allows that.
func (p Pool) settings(ctx context.Context, conn *pgx.Conn, calls []Call) (text string, args []any) {
	var sets []string
	kept := keepsSettings(conn)
	if !kept {
		sets = append(sets, PinSets)
	}
	if !slices.ContainsFunc(calls, func(c Call) bool { return !c.Lazy }) {
		sets = append(sets, lazySet)
	}
	if i := slices.IndexFunc(calls, func(c Call) bool { return c.Promise != "" }); i >= 0 {
		sets = append(sets, calls[i].Promise)
	}
	if readsText(conn) {
		sets = append(sets, Each(textSettings, SetLocal))
	}
	sets = append(sets, p.Limits.Settings()...)
	bounds, args := boundSets(ctx, conn, kept)
	if sets = append(sets, bounds...); len(sets) == 0 {
		return "", nil
	}
	text = "SELECT " + strings.Join(sets, ", ")
	if !kept {
		text += " WHERE " + postgres.FitSession
	}
	return text, args
}

// leaveClean ends a failed transaction so that the connection can be used again. It gives up a connection whose server
// turned read-only, since after a failover the pool has to find the new primary, and a session that does not fit, since
// the next one may.
func leaveClean(conn *pgx.Conn, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if postgres.IsReadOnly(cause) || errors.Is(fault.Explain(cause), fault.ErrSession) {
		conn.Close(ctx)
		return
	}
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		conn.Exec(ctx, "ROLLBACK") // on failure the pool discards the connection
	}
}

// Check begins a transaction in a round trip of its own, which a pooler in statement mode refuses. Such a pooler
// would let claims and settles pass, each of which is sent in one piece, but refuse the first transaction of a handler.
// The server refuses a session that does not fit.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: "BEGIN; " + postgres.SelectFit},
		func(pgx.Tx) error { return nil })
}

// mayRetake reports that another row took a unique value first that one of the calls wanted: when the transaction runs
// again, it leaves the row alone that lost.
func mayRetake(err error, calls []Call) bool {
	return postgres.IsTaken(err) && slices.ContainsFunc(calls, func(c Call) bool { return c.Retakes })
}
