package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/measure"
)

// A meterConn is the connection that observes. It counts its own transactions: with the simple protocol, each call is
// one.
type meterConn struct {
	config  *pgx.ConnConfig
	conn    *pgx.Conn
	commits int64
}

func newMeterConn(url string) (*meterConn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["application_name"] = "txwork bench"
	return &meterConn{config: config}, nil
}

// connect also replaces a connection that was broken by the end of a context.
func (m *meterConn) connect(ctx context.Context) (err error) {
	if m.conn == nil || m.conn.IsClosed() {
		m.conn, err = pgx.ConnectConfig(ctx, m.config)
	}
	m.commits++
	return err
}

func (m *meterConn) close(ctx context.Context) error {
	if m.conn == nil {
		return nil
	}
	return m.conn.Close(ctx)
}

// exec runs statements without parameters, in one transaction.
func (m *meterConn) exec(ctx context.Context, sql string) error {
	if err := m.connect(ctx); err != nil {
		return err
	}
	_, err := m.conn.Exec(ctx, sql)
	return err
}

// query reads one row.
func (m *meterConn) query(ctx context.Context, into []any, sql string, args ...any) error {
	return m.QueryRow(ctx, sql, args...).Scan(into...)
}

// QueryRow implements [measure.Querier].
func (m *meterConn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := m.connect(ctx); err != nil {
		return noRow{err}
	}
	return m.conn.QueryRow(ctx, sql, args...)
}

// A noRow is the row of a statement that could not be sent.
type noRow struct{ err error }

// Scan returns why there is none.
func (r noRow) Scan(...any) error { return r.err }

// counters are those of the server, of its database without the meter's own transactions, and of one table.
type counters struct {
	measure.Counters
	transactions int64
	hot, dead    int64
	client       time.Duration // CPU time of this process
}

const readTable = `
	SELECT t.n_tup_hot_upd, t.n_dead_tup FROM pg_stat_user_tables AS t WHERE t.schemaname = $1 AND t.relname = $2`

// read waits until the workload's sessions have ended, so that their counts are included, and makes the meter's own
// session report its counts.
func (l *lab) read(ctx context.Context, table string) (c counters, err error) {
	if err := l.quiet(ctx); err != nil {
		return c, err
	}
	if err := l.meter.exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
		return c, err
	}
	own := l.meter.commits
	if c.transactions, err = measure.Transactions(ctx, l.meter, l.meter.config.Database); err != nil {
		return c, err
	}
	c.transactions -= own
	c.client = measure.ClientCPU()
	if c.Counters, err = measure.Read(ctx, l.meter, l.serverDir()); err != nil {
		return c, err
	}
	return c, l.meter.query(ctx, []any{&c.hot, &c.dead}, readTable, l.schema, table)
}

// quietLimit is a long time for a session to end. Behind a pooler it does not end, and the counts are a second old.
const quietLimit = 5 * time.Second

// quiet returns when no session of the workload is left.
func (l *lab) quiet(ctx context.Context) error {
	const query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"
	for deadline := time.Now().Add(quietLimit); time.Now().Before(deadline); {
		var sessions int
		if err := l.meter.query(ctx, []any{&sessions}, query, l.session); err != nil || sessions == 0 {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// pause is a sleep that ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
