package workqueue

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// probeChannel is where a listener behind a pooler listens for a notification of its own.
const probeChannel = "txwork_probe"

// probeLimit bounds the probe. If it passes, for example because the pooler has no session to spare, nothing is known.
const probeLimit = 10 * time.Second

// unheard is logged once for each listener: it is no error, since the workers poll.
const unheard = "the pooler does not keep the listener's session, as PgBouncer in transaction mode: no notification " +

	"arrives, so workers find rows only when they poll, and learn of cancels at a renewal; set ListenConfig to a " +
	"connection to PostgreSQL itself, or NoListen"

// isPooled is the expression that tells whether the session has another process id than the connection was told, as
// behind a pooler of any kind.
func isPooled(conn *pgx.Conn) string {
	return "pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) " + strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
}

// checkHears logs if notifications do not reach the connection. It is called if there is a pooler, one of whose
// sessions may be the listener's until it ends, or may not be.
func (l *listener) checkHears(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	payload := rand.Text()
	if _, err := conn.Exec(ctx, "LISTEN "+probeChannel); err != nil {
		return err
	}
	if !l.sendProbe(ctx, payload) {
		return nil
	}
	heard, err := l.hears(ctx, conn, payload)
	if err != nil {
		return err
	}
	if tables := l.list(); !heard && len(tables) > 0 {
		l.pooled.Do(func() {
			tables[0].table.telemetry.Log(ctx, slog.LevelWarn, unheard)
		})
	}
	_, err = conn.Exec(ctx, "UNLISTEN "+probeChannel)
	return err
}

// sendProbe notifies the listener from another connection, and reports whether it has.
func (l *listener) sendProbe(ctx context.Context, payload string) bool {
	other, err := l.connect(ctx)
	if err != nil {
		return false
	}
	defer other.Close(context.WithoutCancel(ctx))
	_, err = other.Exec(ctx, "NOTIFY "+probeChannel+", '"+payload+"'")
	return err == nil
}

// hears reports whether the notification has arrived. A session that listens has been told of it before the NOTIFY
// returned, and passes it on before it answers the ping. What else arrives is for the tables.
func (l *listener) hears(ctx context.Context, conn *pgx.Conn, payload string) (bool, error) {
	if err := conn.Ping(ctx); err != nil {
		return false, err
	}
	arrived, cancel := context.WithCancel(ctx)
	cancel() // what has arrived is returned all the same
	for {
		n, err := conn.WaitForNotification(arrived)
		switch {
		case err != nil:
			return false, ctx.Err()
		case n.Channel != probeChannel:
			l.received(n)
		case n.Payload == payload:
			return true, nil
		}
	}
}
