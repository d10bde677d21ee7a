package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
)

// share is how many connections a process of tests may need at once: those of [sharedWaiting] tests, with pools of 8
// connections, listeners, and the sessions that create schemas.
const share = 45

// shareEnv says that the process, or one that has started it, has a share.
const shareEnv = "TXWORK_TEST_SHARE"

// takeShare waits until fewer processes use the server of the user than it has connections for: go test runs a process
// for each package, and as many at once as there are processors. The share is an advisory lock of the session that is
// returned, which ends with the process.
var takeShare = sync.OnceValues(func() (*pgx.Conn, error) {
	url := os.Getenv(localpg.DatabaseURLEnv)
	if url == "" || os.Getenv(shareEnv) != "" {
		return nil, nil
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	const try = `SELECT coalesce((SELECT bool_or(pg_try_advisory_lock(hashtext('txwork tests'), s.i)) FROM (
		SELECT i FROM generate_series(1, greatest(1, (current_setting('max_connections')::int - 5) / $1)) AS i
		WHERE NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.objsubid = 2
			AND l.classid::bigint = hashtext('txwork tests')::bigint & 4294967295 AND l.objid = i)
		ORDER BY random() LIMIT 1) AS s), false)`
	for taken := false; !taken; {
		if err := conn.QueryRow(ctx, try, share).Scan(&taken); err != nil {
			return nil, fmt.Errorf("waiting for a share of the connections: %w", err)
		}
		if !taken {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return conn, os.Setenv(shareEnv, "taken")
})

// URL returns the URL of the server that the tests of this process share. Its search_path is the server's default, so
// tests that use the URL directly must not leave anything behind.
func URL(t testing.TB) string {
	t.Helper()
	if _, err := takeShare(); err != nil {
		t.Fatalf("test server: %v", err)
	}
	return pgschema.Server(t)
}
