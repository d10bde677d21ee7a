package conn

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// idleTimeout is how long the server lets a transaction of txwork's own stand still, because its process is frozen or
// its network gone, before it ends the session and with it every lock: see the package's documentation.
const idleTimeout = 10 * time.Second

// boundSets returns the settings that bound a transaction at the server. They are set in every transaction, together
// with its other settings: a pooler may refuse settings at a connection's start, and would hand later ones on to the
// next session.
//
// A transaction that is sent in one piece can stand still in two ways. A client that stops reading blocks the server in
// its reply, before the COMMIT that follows: tcp_user_timeout ends that. For a client that has sent only a part, the
// server waits until transaction_timeout, which PostgreSQL has from 17 on. This limit leaves a statement the time for
// which its caller waits. It is not set if the caller's context has no deadline.
func boundSets(ctx context.Context, conn *pgx.Conn, kept bool) (sets []string, args []any) {
	if !kept {
		sets = append(sets, SetLocal("tcp_user_timeout", Milliseconds(idleTimeout)))
	}
	deadline, ok := ctx.Deadline()
	if !ok || ServerVersion(conn) < 17 {
		return sets, nil
	}
	limit := max(time.Until(deadline)+time.Second, idleTimeout)
	return append(sets, "pg_catalog.set_config('transaction_timeout', $1::pg_catalog.text, true)"),
		[]any{Milliseconds(limit)}
}

// idleSet also bounds the time between two statements of a transaction that a client holds open.
var idleSet = SetLocal("idle_in_transaction_session_timeout", Milliseconds(idleTimeout))

// ServerVersion is the major version of a connection's server; 0 where it is not known.
func ServerVersion(conn *pgx.Conn) int {
	if conn == nil {
		return 0
	}
	version := conn.PgConn().ParameterStatus("server_version")
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		version = version[:end]
	}
	major, _ := strconv.Atoi(version)
	return major
}

// Milliseconds is a duration as PostgreSQL reads it in a setting.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
