package workqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// keptSettings are what every transaction of ours runs under. A session of our own keeps them, so that its transactions
// need not bring them along, nor say how they begin: at low rates that was half of what a job's statements cost.
var keptSettings = slices.Concat(planSettings, []setting{
	{"tcp_user_timeout", milliseconds(idleTimeout)},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
})

// keptMark is where a connection says that its session keeps the settings.
const keptMark = "txwork: keeps settings"

// keepSettings has the sessions of a pool keep our settings where they are the pool's alone. A pooler would hand them
// on to the next client, and a hook of the application's may reset what a connection has.
func keepSettings(config *pgxpool.Config) {
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

// keepSettingsOf sets nothing where the session is not the one that the connection was told of: a pooler tells its
// clients of none of the server's. A server that refuses the settings gets them with every transaction.
func keepSettingsOf(ctx context.Context, conn *pgx.Conn) error {
	set := func(name, value string) string { return "set_config('" + name + "', '" + value + "', false)" }
	text := "SELECT " + eachSetting(keptSettings, set) +
		" WHERE pg_backend_pid() = " + strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !conn.IsClosed() {
		return nil
	}
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 {
		conn.PgConn().CustomData()[keptMark] = true
	}
	return err
}

func keepsSettings(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[keptMark] == true }
