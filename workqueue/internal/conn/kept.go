package conn

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// keptSettings are the settings of every transaction of ours. A session of our own keeps them, so that its transactions
// need neither set them nor say how they begin: at low rates that was half of what a job's statements cost.
var keptSettings = slices.Concat(PlanSettings, []Setting{
	{"tcp_user_timeout", Milliseconds(idleTimeout)},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
})

// keptMark is the key under which a connection records that its session keeps the settings.
const keptMark = "txwork: keeps settings"

// KeepSettings makes the sessions of a pool keep our settings if nobody else uses them. A pooler would hand the
// settings on to the next client, and a hook of the application may reset them.
func KeepSettings(config *pgxpool.Config) {
	//lint:ignore SA1019 applications may still have it
	hooked := config.PrepareConn != nil || config.BeforeAcquire != nil || config.AfterRelease != nil
	if hooked || config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return
	}
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		return keepSettingsOf(ctx, conn)
	}
}

// keepSettingsOf sets nothing if the session has another process id than the server reported, as behind a pooler.
// If a server refuses the settings, they are sent with every transaction. A session that does not fit is refused.
func keepSettingsOf(ctx context.Context, conn *pgx.Conn) error {
	set := func(name, value string) string {
		return "pg_catalog.set_config('" + name + "', '" + value + "', false)"
	}
	text := "SELECT " + Each(keptSettings, set) + " WHERE " + postgres.FitSession +
		" AND pg_catalog.int4eq(pg_catalog.pg_backend_pid(), " + strconv.FormatUint(uint64(conn.PgConn().PID()), 10) + ")"
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	err = fault.Explain(err)
	if _, ok := errors.AsType[*pgconn.PgError](err); ok && !errors.Is(err, fault.ErrSession) && !conn.IsClosed() {
		return nil
	}
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 {
		conn.PgConn().CustomData()[keptMark] = true
	}
	return err
}

func keepsSettings(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[keptMark] == true }
